"""The tags of the bus, and which handlers each reaches. The fields of each tag are declared in `bus.records`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

USER_REPL_IN = "user-repl-in"
USER_REPL_OUT = "user-repl-out"
USER_REPL_OUT_STREAM = "user-repl-out-stream"
ASSISTANT_REPL_IN = "assistant-repl-in"
ASSISTANT_REPL_OUT = "assistant-repl-out"
ASSISTANT_REPL_OUT_STREAM = "assistant-repl-out-stream"
DISPLAY = "display"
USER_CHAT = "user-chat"
USER_ATTACHMENT = "user-attachment"
ASSISTANT_CHAT = "assistant-chat"
ASSISTANT_CHAT_STREAM = "assistant-chat-stream"
ASSISTANT_TOOL = "assistant-tool"
RLM_CALL = "rlm-call"
RLM_CHAT = "rlm-chat"
RLM_CHAT_STREAM = "rlm-chat-stream"
RLM_REPL_IN = "rlm-repl-in"
RLM_REPL_OUT = "rlm-repl-out"
RLM_FINAL = "rlm-final"
AGENT = "agent"
APPROVAL = "approval"
REVIEW = "review"
INPUT = "input"
QUEUE = "queue"
KERNEL = "kernel"
NAMESPACE = "namespace"
USAGE = "usage"
WINDOW = "window"
NOTICE = "notice"
SUMMARY = "summary"
SESSION = "session"
HIDE = "hide"
PRIVATE = "private"
REPLACE = "replace"
PIN = "pin"
SKILL = "skill"
UNDO = "user-undo"
RESTORE = "restore"
BRANCH = "branch"
PLAN = "plan"
NOTEBOOK_FILE = "notebook-file"
NOTEBOOK_CELL = "notebook-cell"
NOTEBOOK_OUTPUT = "notebook-output"
NOTEBOOK_WRITTEN = "notebook-written"


class Route(NamedTuple):
    """Which handlers a tag reaches."""

    display: bool
    """Drawn by the panes."""
    prompt: bool
    """Told to the model with the user's next question."""
    store: bool
    """Kept on disk."""


ROUTES: Mapping[str, Route] = {
    USER_REPL_IN: Route(display=True, prompt=True, store=True),
    USER_REPL_OUT: Route(display=True, prompt=True, store=True),
    USER_REPL_OUT_STREAM: Route(display=True, prompt=False, store=False),
    ASSISTANT_REPL_IN: Route(display=True, prompt=True, store=True),
    ASSISTANT_REPL_OUT: Route(display=True, prompt=True, store=True),
    ASSISTANT_REPL_OUT_STREAM: Route(display=True, prompt=False, store=False),
    DISPLAY: Route(display=True, prompt=False, store=True),
    USER_CHAT: Route(display=True, prompt=True, store=True),
    # The model gets it with its question, not with the records since the last one.
    USER_ATTACHMENT: Route(display=True, prompt=False, store=True),
    # Displayed too: it replaces the streamed words, which the transport may have corrected.
    ASSISTANT_CHAT: Route(display=True, prompt=True, store=True),
    ASSISTANT_CHAT_STREAM: Route(display=True, prompt=False, store=False),
    ASSISTANT_TOOL: Route(display=True, prompt=True, store=True),
    RLM_CALL: Route(display=True, prompt=False, store=True),
    RLM_CHAT: Route(display=True, prompt=False, store=True),
    RLM_CHAT_STREAM: Route(display=True, prompt=False, store=False),
    RLM_REPL_IN: Route(display=True, prompt=False, store=True),
    RLM_REPL_OUT: Route(display=True, prompt=False, store=True),
    RLM_FINAL: Route(display=True, prompt=False, store=True),
    AGENT: Route(display=True, prompt=False, store=True),
    APPROVAL: Route(display=True, prompt=False, store=True),
    REVIEW: Route(display=True, prompt=False, store=True),
    INPUT: Route(display=True, prompt=False, store=True),
    QUEUE: Route(display=True, prompt=False, store=False),
    KERNEL: Route(display=True, prompt=False, store=True),
    NAMESPACE: Route(display=True, prompt=False, store=True),
    USAGE: Route(display=True, prompt=False, store=True),
    # Of the model that answers now; a resumed session may have another one.
    WINDOW: Route(display=True, prompt=False, store=False),
    NOTICE: Route(display=True, prompt=False, store=True),
    SUMMARY: Route(display=True, prompt=False, store=True),
    SESSION: Route(display=True, prompt=False, store=False),
    # They decide which other records are in the prompt.
    HIDE: Route(display=True, prompt=True, store=True),
    REPLACE: Route(display=True, prompt=True, store=True),
    PRIVATE: Route(display=True, prompt=True, store=True),
    PIN: Route(display=True, prompt=False, store=True),
    SKILL: Route(display=True, prompt=False, store=True),
    UNDO: Route(display=True, prompt=True, store=True),
    RESTORE: Route(display=True, prompt=True, store=True),
    BRANCH: Route(display=True, prompt=False, store=True),
    PLAN: Route(display=True, prompt=False, store=True),
    NOTEBOOK_FILE: Route(display=True, prompt=True, store=True),
    NOTEBOOK_CELL: Route(display=True, prompt=True, store=True),
    # Of an earlier run, so they may be wrong now.
    NOTEBOOK_OUTPUT: Route(display=True, prompt=False, store=True),
    NOTEBOOK_WRITTEN: Route(display=True, prompt=False, store=True),
}
"""Every tag has a row: this table is the only place where routing is decided."""

PICTURES = frozenset(("image/png", "image/jpeg"))
"""MIME types of a `display` that are pictures."""

OUTPUTS = frozenset((USER_REPL_OUT, ASSISTANT_REPL_OUT))
"""Tags of the whole output of a cell."""

STREAMS = frozenset(tag for tag in ROUTES if tag.endswith("-stream"))
"""Tags of pieces that a whole record completes."""

WHOLE_OF: Mapping[str, str] = {
    USER_REPL_OUT_STREAM: USER_REPL_OUT,
    ASSISTANT_REPL_OUT_STREAM: ASSISTANT_REPL_OUT,
    ASSISTANT_CHAT_STREAM: ASSISTANT_CHAT,
}
"""For each stream that is kept on disk when it ends, the tag of the whole record."""
