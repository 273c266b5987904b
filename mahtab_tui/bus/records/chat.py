"""Records of the conversation with the model. `turn` is the number of a question, `step` the number
of an answer to it, from 0."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from mahtab_tui.bus import tags
from mahtab_tui.bus.records.base import NULL, Data, Flag, Name, Record, Word
from mahtab_tui.bus.records.cells import Change


class UserChat(Record, tag=tags.USER_CHAT, in_prompt=True):
    """A question. Text: the user's words."""

    turn: int | None = None


class UserAttachment(Record, tag=tags.USER_ATTACHMENT):
    """An attachment of a question. Text: what the model is told, with the question itself."""

    turn: int | None = None
    label: str = ""
    """As the user wrote it: "@notes.txt:1-20"."""
    size: str = ""
    """In words."""
    problem: str = ""
    """Why it is not attached, as a sentence."""
    picture: Word | None = None
    """The id of a picture. The first record of a picture has the following fields too."""
    mime: Word | None = None
    data: Data | None = None
    """Base64."""
    width: int | None = None
    """In pixels, as is the height."""
    height: int | None = None


class AnswerFigure(NamedTuple):
    """A number, date, time or quoted value of an answer."""

    text: str
    """As the answer has it, with quotation marks and units. It may stand there more than once."""
    found: bool
    """Whether it stands in an output, an attachment or the question; otherwise it was not
    computed."""
    cell: int | None = None
    """The cell whose output has it; None if it comes from elsewhere."""


class AssistantChat(Record, tag=tags.ASSISTANT_CHAT, in_prompt=True):
    """An answer is complete. Text: all of it, which the transport may have corrected since it was
    streamed."""

    turn: int | None = None
    step: int | None = None
    party: Word | None = None
    """The model's short name."""
    stopped: bool = False
    cut: Flag = False
    """The program was killed before the answer ended; this is the text until then."""
    figures: tuple[AnswerFigure, ...] | None = None
    """The different figures of the words, from `bus.figures`; None if nobody has looked them up."""


class AssistantChatStream(Record, tag=tags.ASSISTANT_CHAT_STREAM, in_store=False):
    """A piece of an answer to draw, without tags and fence lines of Python."""

    turn: int | None = None
    step: int | None = None
    party: Word | None = None
    kind: Word = "chat"
    """"chat" or "code"."""
    block: int | None = None
    """The number of the code block in the answer, from 0; for words, of the next block."""
    fresh: Flag = False
    """The answer starts again: drop its pieces so far. There is no text."""

    @property
    def stream(self) -> tuple[object, ...]:
        """Equal for all pieces that make one text."""
        return self.tag, self.turn, self.step, self.party, self.kind, self.block, self.fresh


class AssistantThought(Record, tag=tags.ASSISTANT_THOUGHT):
    """The model's thoughts before an answer, which its service sends apart from it. No model gets
    them. Text: all of it."""

    turn: int | None = None
    step: int | None = None
    party: Word | None = None


class AssistantThoughtStream(Record, tag=tags.ASSISTANT_THOUGHT_STREAM, in_store=False):
    """A piece of such a thought to draw."""

    turn: int | None = None
    step: int | None = None
    party: Word | None = None

    @property
    def stream(self) -> tuple[object, ...]:
        """Equal for all pieces that make one text."""
        return self.tag, self.turn, self.step, self.party


class AssistantTool(Record, tag=tags.ASSISTANT_TOOL, in_prompt=True):
    """A tool call of the model. Text: the result, or why there is none."""

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


class Agent(Record, tag=tags.AGENT):
    """The model's current activity."""

    state: Word = ""
    """"thinking", "reflecting", "summarising", "done", "stopped", "max-turns" or "failed"."""
    turn: int | None = None
    step: int | None = None
    party: Word | None = None


class Approval(Record, tag=tags.APPROVAL):
    """Code that waits for approval, or the decision. Text: the code, edited or not. Without
    approvals, only refused code has this record."""

    request: Word = ""
    """The id of the question to the user."""
    turn: int | None = None
    step: int | None = None
    block: int | None = None
    """The number of the block, from 0."""
    blocks: int | None = None
    """How many blocks the answer has."""
    state: Word = ""
    """"waiting", then "run", "edited", "skipped" or "stopped"; "refused" for code that must not
    run."""
    reason: str = ""
    """Why it was skipped."""
    why: str | None = None
    """Why it waits, although the approval mode does not ask about all code."""
    party: Word | None = None
    guest: int | None = None
    """The number of an agent's colour, from 0."""
    call: Word | None = None
    """The id of the agent's call."""
    is_code: bool | None = None
    """False if the text describes in words what an agent wants to do."""


class NotRestored(NamedTuple):
    """Something that an undo leaves as it is."""

    name: Name
    """The variable or file; empty if it is about more than one."""
    reason: str
    """A sentence."""


class Review(Record, tag=tags.REVIEW):
    """Changes of cells that wait until the user keeps or undoes them, or the decision."""

    request: Word = ""
    """The id of the question to the user."""
    cells: tuple[int, ...] = ()
    """The cell of the model, and those that have run since: an undo takes them back too."""
    state: Word = ""
    """"waiting", then "kept", "undone" or "stopped" (the changes stay, and the turn ends)."""
    reason: str = ""
    """Why it was undone."""
    party: Word | None = None
    changes: tuple[Change, ...] = ()
    """Changes that the cells have made."""
    not_restored: tuple[NotRestored, ...] = ()
    """Changes that an undo would leave as they are."""


class Summary(Record, tag=tags.SUMMARY):
    """A summary of the beginning of the conversation. Text: the summary; empty if summarizing
    failed."""

    turn: int | None = None
    """The last question that it covers."""


class Window(Record, tag=tags.WINDOW, in_store=False):
    """How full the window of the answering model is. A resumed session may have another one."""

    tokens: int = 0
    """Tokens of the last request, as the model counted them; or of the next one."""
    size: int = 0
    """The tokens that the model can read."""
    estimated: Flag = False
    """The model did not count them."""


class Usage(Record, tag=tags.USAGE):
    """The usage of one model call."""

    tree: Word | None = None
    """The search, its node, and the number of this event, as in `SearchRecord`."""
    node: Word | None = None
    seq: int | None = None
    turn: int | None = None
    """The question for which the call was made, or the turn of a search's node."""
    model: Word = ""
    """The provider's name for it; with the provider before it ("openai:…") if it is an embedding
    model."""
    input_tokens: int = 0
    """All input tokens, including those read from and written to the cache."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost: Annotated[float | None, NULL] = None
    """US dollars; None if the price is not known."""
    source: Word | None = None
    """"agent", "reflection", "summary", "suggestion", "embedding" or "rlm"."""
    estimated: Flag = False
    """The call ended before the model reported its usage."""
