"""The nodes of a search's tree: its calls, with their turns and fan-outs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.worker.cells.capture import shorten

State = Literal["waiting", "thinking", "running", "done", "partial", "error", "stopped"]
"""How far a call has come. "partial" means that it gave the best answer it had at a limit."""

_END_STATES: tuple[State, ...] = ("done", "partial", "error", "stopped")
FINISHED = frozenset(_END_STATES)
STATES: tuple[State, ...] = (*_END_STATES, "running", "thinking", "waiting")

MAX_TEXT_CHARS = 40_000
"""Maximum characters of a turn's words, code or output; of longer texts, both ends are kept."""
_LAST_LINE_CHARS = 600
"""The last line of a turn is looked for in this many characters at its end."""


def shortened(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return both ends of a text that is longer than a limit."""
    return shorten(text, max_chars // 2)


@dataclass(slots=True, eq=False)
class Turn:
    """One answer of the model, and what its code did."""

    number: int
    """From 1."""
    begun: float = 0.0
    """When the model was asked, in seconds since the epoch."""
    whole: bool = False
    """Whether the answer has come to its end, so that pieces of it are ignored."""
    cut: bool = False
    """Whether text after its code was dropped."""
    code: str | None = None
    output: str | None = None
    status: str = ""
    """How the code ended: a `sandbox.base.TurnStatus`."""
    chars: int = 0
    """Characters of the whole output."""
    duration: float | None = None
    """Seconds that the code ran; None until it has ended."""
    used: UsageStats = field(default_factory=UsageStats)
    """What its model calls took."""
    version: int = 0
    """Grows with each change, so that what was drawn of it can be compared."""
    _pieces: list[str] = field(default_factory=list)
    _length: int = 0
    """Characters of the pieces."""

    @property
    def words(self) -> str:
        """The answer as far as it has come."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def append(self, piece: str) -> None:
        """Add a piece of the answer, as long as there is room."""
        if self._length < MAX_TEXT_CHARS:
            self._pieces.append(piece)
            self._length += len(piece)

    def forget(self) -> None:
        """Drop the answer so far, because it starts over."""
        self._pieces = []
        self._length = 0

    def set_words(self, words: str) -> None:
        """Set the complete answer."""
        self._pieces = [shortened(words)]
        self._length = len(words)
        self.whole = True

    @property
    def size(self) -> int:
        """Characters of its texts."""
        return len(self.words) + len(self.code or "") + len(self.output or "")

    def shorten(self, max_chars: int) -> None:
        """Shorten each of its texts."""
        self.set_words(shortened(self.words, max_chars))
        if self.code is not None:
            self.code = shortened(self.code, max_chars)
        if self.output is not None:
            self.output = shortened(self.output, max_chars)
        self.version += 1


@dataclass(slots=True, eq=False, repr=False)
class FanOut:
    """Sub-calls that one step of a node's code makes together."""

    id: str
    of: int = 0
    """How many parts there are, started or not."""
    slots: dict[int, SearchNode] = field(default_factory=dict)
    """Its nodes by their number, from 0."""
    counts: Counter[State] = field(default_factory=Counter)
    request: str = ""
    """Id of the question whether it may run."""
    asks: bool = False
    """Whether the user has not answered that question yet."""
    refused: bool = False
    """Whether the user has answered that it may not run."""
    calls: int = 0
    """Estimated number of model calls, if there was a question; tokens and US dollars are
    estimates, too."""
    tokens: int = 0
    usd: float | None = None

    def count(self, state: State) -> int:
        """Count its parts in a state; those that have not started are waiting."""
        if state != "waiting":
            return self.counts[state]
        unstarted = max(0, self.of - len(self.slots))
        return self.counts[state] + unstarted


@dataclass(slots=True, eq=False, repr=False)
class SearchNode:
    """One call: a search (``rlm``), or a plain model call (``llm``)."""

    id: str
    parent: SearchNode | None
    query: str
    kind: str
    """``rlm`` or ``llm``."""
    depth: int
    """How many calls are above it; 0 for the root."""
    begun: float
    """When it began, in seconds since the epoch."""
    model: str = ""
    """The name of the model that answers."""
    spans: tuple[TextSpan, ...] = ()
    """Places of its text in the root's text; empty if code made the text."""
    chars: int = 0
    """Characters of its text."""
    batch: FanOut | None = None
    """The fan-out that starts it; None for the root."""
    index: int = 0
    """Its number in its fan-out, from 0."""
    state: State = "waiting"
    back_off: float | None = None
    """When the next try starts, in seconds since the epoch; None unless the service is busy."""
    turn_limit: int = 0
    """Maximum number of its turns; 0 if that is not known."""
    turns: list[Turn] = field(default_factory=list)
    used: UsageStats = field(default_factory=UsageStats)
    """What its model calls and those of its descendants took."""
    alive: int = 0
    """How many of its descendants have not ended."""
    answer: str = ""
    rests_on: tuple[TextSpan, ...] = ()
    """Places in the root's text that support the answer."""
    duration: float | None = None
    """Seconds from its begin to its end; None until it has ended."""
    cut: bool = False
    """Whether the search's events ended before it did."""
    children: list[SearchNode] = field(default_factory=list)
    batches: dict[str, FanOut] = field(default_factory=dict)
    """Its fan-outs by their ids."""
    version: int = 0
    """Grows with each change, so that what was drawn of it can be compared."""

    @property
    def finished(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.state in FINISHED

    def elapsed(self, now: float) -> float:
        """Return how many seconds it has taken. now: in seconds since the epoch."""
        if self.duration is not None:
            return self.duration
        return max(0.0, now - self.begun)

    def turn_label(self, number: int, form: str) -> str:
        """Return a turn's number as text. form: formats the number and the limit of turns."""
        if not self.turn_limit or not number:
            return ""
        # After the last turn, the model is asked once more for an answer.
        if number > self.turn_limit:
            return "last call"
        return form.format(number, self.turn_limit)

    @property
    def last_line(self) -> str:
        """The last line of the newest turn that says something: of its code while that runs, or of
        the answer."""
        if not self.turns:
            return ""
        turn = self.turns[-1]
        text = turn.code if self.state == "running" and turn.code else turn.words
        for line in reversed(text[-_LAST_LINE_CHARS:].splitlines()):
            line = line.strip()
            if line and not line.startswith("```"):
                return line
        return ""
