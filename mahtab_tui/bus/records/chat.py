"""Records of the conversation with the model. `turn` is the number of a question, `step` that of an answer to it, from 0."""

from __future__ import annotations

from typing import Annotated, ClassVar

from mahtab_tui.bus import tags
from mahtab_tui.bus.records.base import NULL, Data, Flag, Name, Record, Word


class UserChat(Record):
    """A question. Text: the user's words."""

    tag: ClassVar[str] = tags.USER_CHAT

    turn: int | None = None


class UserAttachment(Record):
    """Something that goes with a question. Text: what the model is told of it."""

    tag: ClassVar[str] = tags.USER_ATTACHMENT

    turn: int | None = None
    label: str = ""
    """As in "@notes.txt:1-20"."""
    size: str = ""
    """In words."""
    problem: str = ""
    """Why it does not go with it, as a sentence."""
    picture: Word | None = None
    """The id of a picture. The first record of one has the rest, too, as it is sent."""
    mime: Word | None = None
    data: Data | None = None
    """Base64."""
    width: int | None = None
    """Pixels, as the height."""
    height: int | None = None


class AssistantChat(Record):
    """An answer is complete. Text: all of it."""

    tag: ClassVar[str] = tags.ASSISTANT_CHAT

    turn: int | None = None
    step: int | None = None
    party: Word | None = None
    """The model's short name."""
    stopped: bool = False
    cut: Flag = False
    """The program was killed before the answer's end, and this is what had come."""


class AssistantChatStream(Record):
    """A piece of an answer to draw: without tags and fence lines of Python."""

    tag: ClassVar[str] = tags.ASSISTANT_CHAT_STREAM

    turn: int | None = None
    step: int | None = None
    party: Word | None = None
    kind: Word = "chat"
    """"chat" or "code"."""
    block: int | None = None
    """The number of the block of code in the answer, from 0; of words: of the block that comes next."""
    fresh: Flag = False
    """No piece: the answer begins anew, and what came of it does not count."""

    @property
    def stream(self) -> tuple[object, ...]:
        """The same for all pieces that make one text."""
        return self.tag, self.turn, self.step, self.party, self.kind, self.block, self.fresh


class AssistantTool(Record):
    """A tool that the model calls. Text: what it gave, or why it did not."""

    tag: ClassVar[str] = tags.ASSISTANT_TOOL

    call: Word | None = None
    """"2.0.1" is the second call of the answer 2.0."""
    turn: int | None = None
    step: int | None = None
    party: Word | None = None
    name: Name = ""
    arguments: str = ""
    """JSON."""
    state: Word = ""
    """"running", then "ok", "error", "refused" or "stopped"."""
    duration: float | None = None
    """Seconds."""


class Agent(Record):
    """What the model does now."""

    tag: ClassVar[str] = tags.AGENT

    state: Word = ""
    """"thinking", "reflecting", "done", "stopped", "max-turns" or "failed"."""
    turn: int | None = None
    step: int | None = None
    party: Word | None = None


class Approval(Record):
    """Code that waits for the user, or what was decided about it. Text: the code, as edited where it was. Where nobody is asked there are none,
    but of code that may not run at all."""

    tag: ClassVar[str] = tags.APPROVAL

    request: Word = ""
    """The id of the question to the user."""
    turn: int | None = None
    step: int | None = None
    block: int | None = None
    """Block 0 of 3: of this many `blocks`."""
    blocks: int | None = None
    state: Word = ""
    """"waiting", then "run", "edited", "skipped" or "stopped"; "refused" of code that may not run."""
    reason: str = ""
    """Why it was skipped."""
    party: Word | None = None
    guest: int | None = None
    """The number of the colour of another program's agent, from 0."""
    call: Word | None = None
    """The id of that agent's call."""
    is_code: bool | None = None
    """False: the text is in words what an agent wants to do."""


class Summary(Record):
    """Text: what the model is told in the place of the conversation's beginning; empty where that failed."""

    tag: ClassVar[str] = tags.SUMMARY

    turn: int | None = None
    """The last question that it stands for."""


class Usage(Record):
    """What one call of a model has used."""

    tag: ClassVar[str] = tags.USAGE

    tree: Word | None = None
    """The search that made the call, its node, and the number of this event in it, as `SearchRecord` has them."""
    node: Word | None = None
    seq: int | None = None
    turn: int | None = None
    """The question that it was made for, or the turn of a search's node."""
    model: Word = ""
    input_tokens: int = 0
    """All that were read, the two of the cache among them."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost: Annotated[float | None, NULL] = None
    """US dollars; None where the price is not known."""
    source: Word | None = None
    """"agent", "reflection", "summary", "suggestion" or "rlm"."""
    estimated: Flag = False
    """The call ended before the model could tell."""
