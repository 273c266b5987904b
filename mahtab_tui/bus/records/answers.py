"""The records of the user's questions and the model's work on an answer."""

from __future__ import annotations

from typing import NamedTuple

from mahtab_tui.bus.entry_names import answer_entry, question_entry, tool_entry
from mahtab_tui.bus.marks import Data, Flag, Name, Word
from mahtab_tui.bus.records.record import INDEXED_INPUT_CHARS, INDEXED_OUTPUT_CHARS, Record, Stream


class UserChat(Record, tag="user-chat", in_prompt=True, indexed=INDEXED_INPUT_CHARS):
    """A question. Text: the user's words."""

    turn: int | None = None

    @property
    def entry_name(self) -> str:
        return question_entry(self.turn)


class UserAttachment(Record, tag="user-attachment"):
    """An attachment of a question. Text: what the model gets with the question."""

    turn: int | None = None
    label: str = ""
    """What the user wrote for it, such as "@notes.txt:1-20"."""
    size: str = ""
    """Its size in words, such as "20 lines"."""
    problem: str = ""
    """Why it could not be attached; empty if it was."""
    picture: Word | None = None
    """The id of a picture, whose first record also has the following fields."""
    mime: Word | None = None
    """The picture's type, such as "image/png"."""
    data: Data | None = None
    width: int | None = None
    """In pixels, like its height."""
    height: int | None = None


class AnswerFigure(NamedTuple):
    """A number, ISO date or quoted value of an answer."""

    text: str
    found: bool
    """The name of `has_source` in stored records and in `ask --json`."""
    cell: int | None = None
    basis: str | None = None
    """How it follows from others, such as "8 of 406" or "3 listed"; None if it does not."""
    near: str | None = None
    """The printed figure from which it differs by one digit, or by two swapped ones."""

    @property
    def has_source(self) -> bool:
        """Whether it occurs in an output, an attachment, code that ran or the user's words, or
        follows from figures that do; else it was not computed."""
        return self.found

    @property
    def doubt(self) -> str:
        """The text of a figure that was not computed, with the one that was printed instead."""
        if self.near:
            return f"{self.text} (printed: {self.near})"
        return self.text


class ModelRecord(Record):
    """An event of the model's work on an answer."""

    turn: int | None = None
    """The number of the question, from 1."""
    step: int | None = None
    """Which of the model's answers to the question this is about, from 0: the one that it writes, or is
    about to write; at the end of the question the last one, or -1 if there was none."""
    party: Word | None = None
    """The model's short name."""


class AssistantChat(ModelRecord, tag="assistant-chat", in_prompt=True, indexed=INDEXED_INPUT_CHARS):
    """A complete answer. Its text may differ from what was streamed."""

    stopped: bool = False
    """Whether the user stopped the answer."""
    cut: Flag = False
    """Whether the program was killed before the answer ended."""
    is_prose: Flag = False
    """Whether code in it was never meant to run, because an agent wrote it."""
    figures: tuple[AnswerFigure, ...] | None = None
    """What `bus.figures` found, without duplicates; None if they were not looked up."""

    @property
    def entry_name(self) -> str:
        return answer_entry(self.turn, self.step)


class AssistantChatStream(ModelRecord, Stream, tag="assistant-chat-stream", in_store=False):
    """A piece of an answer to draw, without tags and Python fence lines."""

    kind: Word = "chat"
    """ "chat" or "code"; "prose" for words of an agent, in which code never runs."""
    block: int | None = None
    fresh: Flag = False
    """Whether the answer starts over: earlier pieces must be dropped, and there is no text."""

    @property
    def entry_name(self) -> str:
        return answer_entry(self.turn, self.step)


class AssistantThought(ModelRecord, tag="assistant-thought"):
    """The model's complete thinking before an answer, if its service sends it.

    Models do not get it back.
    """


class AssistantThoughtStream(ModelRecord, Stream, tag="assistant-thought-stream", in_store=False):
    """A piece of the model's thinking to draw."""


class AssistantReading(ModelRecord, tag="assistant-reading", in_store=False):
    """How much of the prompt the model has read, of services that report it."""

    share: float = 0.0
    """The share of the prompt that has been read, from 0 to 1."""


class AssistantTool(
    ModelRecord, tag="assistant-tool", in_prompt=True, indexed=INDEXED_OUTPUT_CHARS
):
    """A tool call by the model. Text: the result, or why there is none."""

    call: Word | None = None
    """The number of the call: "2.0.1" is the second one of the answer 2.0."""
    name: Name = ""
    arguments: str = ""
    state: Word = ""
    """First "running", then "ok", "error", "refused" or "stopped"."""
    duration: float | None = None
    """In seconds; None until it has ended."""
    is_plan: Flag = False
    """Whether this is an agent's plan, which changes as it proceeds, and not a tool call."""

    @property
    def entry_name(self) -> str:
        return tool_entry(self.call)


class Agent(ModelRecord, tag="agent"):
    """The model's current activity."""

    state: Word = ""
    """One of "thinking", "reflecting", "summarising", "done", "stopped", "max-turns", "stalled" and
    "failed"."""


class AgentSession(Record, tag="agent-session"):
    """An agent has got a question in a session of its own. Text: that session's id."""

    turn: int | None = None
    agent: Word = ""
    """The agent's name in the settings."""


class Summary(Record, tag="summary", indexed=INDEXED_INPUT_CHARS):
    """A summary of the beginning of the conversation; empty if summarising failed."""

    turn: int | None = None


class LastConversation(Record, tag="last-conversation", in_prompt=True):
    """What the user and the model said last in the session before this one."""
