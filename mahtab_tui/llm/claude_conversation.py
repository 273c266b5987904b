"""What a `claude` process knows of a conversation, and how to tell everything to a new process."""

from __future__ import annotations

from collections.abc import Sequence

from mahtab_tui.bus.formatters import escape_tags
from mahtab_tui.bus.told import told
from mahtab_tui.llm.claude_process import ClaudeProcess
from mahtab_tui.llm.prompts import STOPPED_ANSWER

_TURN_TAGS = ("conversation", "human", "assistant")


class ClaudeConversation:
    """A process and the messages that it knows; none before its first question."""

    def __init__(self, process: ClaudeProcess) -> None:
        self.process = process
        self.told: list[tuple[str, str]] = []
        """(type, text) of each message."""

    def goes_on_with(self, told: Sequence[tuple[str, str]]) -> bool:
        """Tell whether a conversation is the one that the process knows plus one message."""
        return bool(self.told) and len(told) == len(self.told) + 1 and all(map(_is_known, told, self.told))


def flattened(messages: Sequence[tuple[str, str]]) -> str:
    """Return a conversation as one message for a new process. No text in it can forge a turn."""
    if len(messages) == 1:
        return messages[0][1]
    *before, (_, last) = [("assistant" if kind == "ai" else "human", escape_tags(told(text), *_TURN_TAGS)) for kind, text in messages]
    turns = "".join(f"<{name}>{text}</{name}>" for name, text in before)
    return f"<conversation>{turns}</conversation>\n\n{last}"


def _is_known(told: tuple[str, str], known: tuple[str, str]) -> bool:
    """Tell whether a process knows a message. It may know more of a stopped answer than has arrived."""
    if told == known:
        return True
    heard = told[1].removesuffix(STOPPED_ANSWER)
    return told[0] == known[0] == "ai" and heard != told[1] and known[1].startswith(heard.rstrip())
