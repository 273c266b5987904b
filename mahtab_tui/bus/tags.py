"""The tags of the bus, where each is routed, and which attributes each carries.

Attributes (all JSON values) by tag; `cell` is the number of a cell in the session, `turn` the number of a question:

- ``user-repl-in``, ``assistant-repl-in`` (text: the code): ``cell``, ``party`` (who: "you", or the model's short name),
  and of the model's ``turn``, ``step`` and ``block``: which answer and which of its blocks this is (as of ``assistant-chat-stream``).
  Of another agent's: ``party`` (its name), ``guest`` (the number of its colour, from 0) and ``call`` (id); so have their outputs and approvals, and
  ``guest`` also what it changed in the namespace.
- ``…-repl-out-stream`` (text: a piece of output): ``cell``, ``kind`` ("stdout" for what was printed, "value" for the last
  expression, "traceback", "display" for the text of what was shown).
- ``…-repl-out`` (text: the whole output): ``cell``, ``status`` (a `kernel.base.Status` value), ``duration`` (seconds),
  ``kinds`` (list of [kind, characters] in order, as they make up the text), ``frames`` (of a traceback: list of [file, line,
  function, row] as `kernel.base.TracebackFrame` has them), ``late`` (true for what came after its cell had
  ended: a thread's print; such records have no status), ``rewritten`` (true: more was printed than the text has, a part was written over).
- ``user-attachment`` (text: what goes with a question, as the model is told it): ``turn``, ``label`` (as in "@notes.txt:1-20"), ``size`` (in words),
  ``problem`` (why it does not), and of a picture ``picture`` (its id) and, where no earlier one has told them, ``mime``, ``data`` (base64), ``width``
  and ``height`` (pixels), as it is sent.
- ``user-chat``: ``turn``. ``assistant-chat``: ``turn``, ``step`` (number of the generation in the turn, from 0), ``party``,
  ``stopped`` (bool).
  ``assistant-chat-stream`` (text: a piece to draw, tags and Python fence lines left out): ``turn``, ``step``, ``party``, ``kind``
  ("chat", "code"), ``block`` (index of the code block in the answer, from 0; of chat: of the next one). ``fresh`` (true, no text): the answer begins
  anew, and its pieces so far do not count any more; so it does of ``rlm-chat-stream``.
- ``display`` (text: the same as the next piece of output of kind "display"): ``cell``, ``mime``, ``data`` (of pictures base64): a value that is
  more than text. It comes before that piece.
- ``cut`` (true) on a whole output or answer: the program was killed before its end, and this is what had come.
- ``agent`` (what the agent does now): ``turn``, ``step``, ``state`` ("thinking", "reflecting", "done", "stopped", "max-turns", "failed"),
  ``party``.
- ``approval`` (text: the code): ``request`` (id), ``turn``, ``step``, ``block`` and ``blocks`` (block 0 of 3), ``state`` ("waiting", "run", "edited"
  with the edited code, "skipped", "stopped"), ``reason`` (of a skip), ``party``. Where nobody is asked there are none, but of code that may not
  run at all: ``state`` "refused".
- ``input`` (text: the prompt): ``request`` (id), ``cell``, ``password`` (bool), ``state`` ("waiting", "answered", "cancelled").
- ``queue``: ``items`` (list of {"id", "code", "mode", "party" (an agent's name; empty: the person)}: the inputs that wait).
- ``kernel`` (text: a sentence): ``state`` (a `kernel.base.KernelState` value), ``python`` (version), ``executable``, ``cwd``, ``pid``,
  ``cell`` (while busy).
- ``namespace``: ``cell``, ``party``, ``fresh`` (true: forget all rows first), ``changes`` (list of {"name", "change" (added, rebound,
  changed, perhaps, deleted), "type", "summary", "kind" (data, module, function, class), and
  "was_type", "was": type and summary before, where they were others}).
- ``usage``: ``model``, ``input_tokens`` (all that were read, the two of the cache among them), ``output_tokens``, ``cache_read_tokens``, ``cache_creation_tokens``, ``cost`` (US dollars, or null
  where the price is not known), ``source`` ("agent", "reflection",
  "summary", both with ``turn``, "suggestion", "rlm"), ``estimated`` (true: the call ended before the model could tell).
- ``session`` (what the header shows of the session): ``name``, ``model`` (as it was chosen), ``approval`` ("ask", "auto").
- ``hide``: ``entry``, ``hidden`` (bool): the model is not told of it any more, or is again. ``replace`` (text: a sentence): ``entry``: it and all
  that came after it have left the conversation for good. An entry is named "cell 3" (with its output), "question 2", "answer 2.0" (the words of
  ``turn`` and ``step``), "tool 2.0.1" or "code 2.0.1" (a block that did not run); `bus.left_out` makes the names.
- ``assistant-tool`` (a tool that the model calls; text: what it gave, or why it did not): ``call`` (id: "2.0.1" is the second call of the answer 2.0),
  ``turn``, ``step``, ``party``, ``name``, ``arguments`` (JSON), ``state`` ("running", then "ok", "error", "refused" or "stopped"), ``duration`` (seconds).
- ``skill``: ``name``, ``loaded`` (bool: it stays loaded in the session from now on, or does no longer), ``chars`` (of its instructions), ``budget``
  (characters of all that are loaded).
- ``pin``: ``entry`` (named so, too), ``pinned`` (bool): it stays at the top of the transcript, or no longer.
- ``notice`` (text: a sentence or two): ``level`` ("info", "warning", "error").
- ``summary`` (text: what the model is told in the place of the conversation's beginning): ``turn`` (the last question that it stands for).
- ``rlm-…``: the events of a recursive search. All have ``tree`` (id of the run) and ``node`` ("1" the root, "1.3" its third child); all but the
  stream have ``seq`` (from 0 in the tree), and so have the tree's ``usage`` records, with ``turn``.
  ``rlm-call`` (text: the query), ``event``: "begin" (``parent``, ``depth``, ``kind`` "rlm" or "llm", ``batch``, ``index``, ``of``, ``spans`` of the
  root text, ``chars``, ``model``, ``replaces``; of the root ``limits``, ``cell``, ``source``), "turn" (``turn``, ``turns``), "back-off" (``seconds``),
  "fan-out" (``request``, ``batch``, ``calls``, ``tokens``, ``usd``, ``made``: sub-calls before it, ``state``: "waiting", "run", "refused"), "touch" (``how``: "peek", "grep",
  "handed", "answer"; ``spans``), "memo" (``of_node``).
  ``rlm-chat-stream`` and ``rlm-chat`` (what the model says in a ``turn``; ``cut``: what came after its code was dropped).
  ``rlm-repl-in`` (code), ``rlm-repl-out`` (text: the ends of what was printed; ``status``, ``duration``, ``chars``), both with ``turn``.
  ``rlm-final`` (text: the answer, or a sentence): ``state`` ("done", "partial", "error", "stopped"), ``duration``, ``spans``, ``late``.
"""

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
INPUT = "input"
QUEUE = "queue"
KERNEL = "kernel"
NAMESPACE = "namespace"
USAGE = "usage"
NOTICE = "notice"
SUMMARY = "summary"
SESSION = "session"
HIDE = "hide"
REPLACE = "replace"
PIN = "pin"
SKILL = "skill"


class Route(NamedTuple):
    """Which handlers a tag reaches."""

    display: bool
    """Drawn by the panes."""
    prompt: bool
    """Told to the model with the person's next turn."""
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
    # Told with its question, not with what happened since the last one.
    USER_ATTACHMENT: Route(display=True, prompt=False, store=True),
    # Displayed too: it ends the streamed words and corrects them where the transport did.
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
    INPUT: Route(display=True, prompt=False, store=True),
    QUEUE: Route(display=True, prompt=False, store=False),
    KERNEL: Route(display=True, prompt=False, store=True),
    NAMESPACE: Route(display=True, prompt=False, store=True),
    USAGE: Route(display=True, prompt=False, store=True),
    NOTICE: Route(display=True, prompt=False, store=True),
    SUMMARY: Route(display=True, prompt=False, store=True),
    SESSION: Route(display=True, prompt=False, store=False),
    # They say what of the others is in the prompt.
    HIDE: Route(display=True, prompt=True, store=True),
    REPLACE: Route(display=True, prompt=True, store=True),
    PIN: Route(display=True, prompt=False, store=True),
    SKILL: Route(display=True, prompt=False, store=True),
}
"""Every tag has a row: this table is the only place where routing is decided."""

PICTURES = frozenset(("image/png", "image/jpeg"))
"""What of the types of a `display` is a picture."""

OUTPUTS = frozenset((USER_REPL_OUT, ASSISTANT_REPL_OUT))
"""The whole output of a cell."""

STREAMS = frozenset(tag for tag in ROUTES if tag.endswith("-stream"))
"""Pieces of something that a whole record ends."""

WHOLE_OF: Mapping[str, str] = {
    USER_REPL_OUT_STREAM: USER_REPL_OUT,
    ASSISTANT_REPL_OUT_STREAM: ASSISTANT_REPL_OUT,
    ASSISTANT_CHAT_STREAM: ASSISTANT_CHAT,
}
"""The tag of the whole record for each stream whose text is kept on disk at its end."""
