"""The nodes of a search's tree: its calls, with their turns and fan-outs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.worker.cells.capture import shorten

State = Literal["waiting", "thinking", "running", "done", "partial", "error", "stopped"]
"""The state of a call. It is "thinking" while the model answers, and "running" while its code runs. A call
that ended at a limit, with the best answer that it had, is "partial"."""

_END_STATES: tuple[State, ...] = ("done", "partial", "error", "stopped")
FINISHED = frozenset(_END_STATES)
"""The states of a call that has ended."""
STATES: tuple[State, ...] = (*_END_STATES, "running", "thinking", "waiting")
"""All states, in the order in which they are counted for the user."""

MAX_TEXT_CHARS = 40_000
"""Maximum characters of a turn's answer, code or output. Only both ends of a longer text are kept."""
_LAST_LINE_CHARS = 600
"""The last line of a turn is looked for in this many characters at its end."""


def shortened(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return a text, or both ends of a text that is longer than a limit."""
    return shorten(text, max_chars // 2)


@dataclass(slots=True, eq=False)
class Turn:
    """One answer of the model, and what its code did."""

    number: int
    """The number of the turn, from 1."""
    started_at: float = 0.0
    """When the model was asked, in seconds since the epoch."""
    is_complete: bool = False
    """Whether the answer is complete. Pieces of it that come later are ignored."""
    has_dropped_text: bool = False
    """Whether the answer had text after its code, which was dropped."""
    code: str | None = None
    """The code of the answer; None if it has none, or has not run yet."""
    output: str | None = None
    """What the code printed; None until it has ended."""
    status: str = ""
    """How the code ended: a `sandbox.base.TurnStatus`; empty until it has ended."""
    output_chars: int = 0
    """Characters of the whole output, of which `output` may be a part."""
    duration_s: float | None = None
    """How long the code ran, in seconds; None until it has ended."""
    usage: UsageStats = field(default_factory=UsageStats)
    """What the model calls of this turn have used."""
    version: int = 0
    """Grows with each change, so that a drawn turn can be compared."""
    _answer_pieces: list[str] = field(default_factory=list)
    _answer_chars: int = 0
    """Characters of the pieces."""

    @property
    def answer(self) -> str:
        """The answer as far as it has come."""
        if len(self._answer_pieces) > 1:
            self._answer_pieces = ["".join(self._answer_pieces)]
        return self._answer_pieces[0] if self._answer_pieces else ""

    def append(self, piece: str) -> None:
        """Add a piece of the answer, unless the answer is already too long to be kept whole."""
        if self._answer_chars < MAX_TEXT_CHARS:
            self._answer_pieces.append(piece)
            self._answer_chars += len(piece)

    def drop_answer(self) -> None:
        """Drop the answer so far, because the model starts over."""
        self._answer_pieces = []
        self._answer_chars = 0

    def set_answer(self, answer: str) -> None:
        """Set the complete answer."""
        self._answer_pieces = [shortened(answer)]
        self._answer_chars = len(answer)
        self.is_complete = True

    @property
    def size(self) -> int:
        """Characters of its answer, code and output that are kept."""
        return len(self.answer) + len(self.code or "") + len(self.output or "")

    def shorten(self, max_chars: int) -> None:
        """Shorten the answer, the code and the output to a number of characters each."""
        self.set_answer(shortened(self.answer, max_chars))
        if self.code is not None:
            self.code = shortened(self.code, max_chars)
        if self.output is not None:
            self.output = shortened(self.output, max_chars)
        self.version += 1


@dataclass(slots=True, eq=False, repr=False)
class FanOut:
    """Sub-calls that one step of a node's code makes together."""

    id: str
    part_count: int = 0
    """The number of its parts, whether they have started or not."""
    nodes_by_part: dict[int, SearchNode] = field(default_factory=dict)
    """The nodes of the parts that have started, by the index of the part."""
    counts: Counter[State] = field(default_factory=Counter)
    """The number of these nodes in each state."""
    request_id: str = ""
    """The id of the question whether it may run; empty if there was no question."""
    is_waiting: bool = False
    """Whether it waits for the user's answer to that question."""
    estimated_calls: int = 0
    """How many model calls it may take; 0 if there was no question."""
    estimated_usd: float | None = None
    """What these calls may cost together, in US dollars; None if no price is known."""

    def count(self, state: State) -> int:
        """Return the number of its parts in a state. Parts that have not started are waiting."""
        if state != "waiting":
            return self.counts[state]
        unstarted_count = max(0, self.part_count - len(self.nodes_by_part))
        return self.counts[state] + unstarted_count


@dataclass(slots=True, eq=False, repr=False)
class SearchNode:
    """One call: a search (``rlm``), or a plain model call (``llm``)."""

    id: str
    parent: SearchNode | None
    """The node that has made the call; None for a root."""
    query: str
    kind: str
    """``rlm`` or ``llm``."""
    depth: int
    """How many nodes are above it; 0 for a root."""
    started_at: float
    """When it started, in seconds since the epoch."""
    model: str = ""
    """The name of the model that answers."""
    spans: tuple[TextSpan, ...] = ()
    """Where its text stands in the root's text; empty if code made the text."""
    text_chars: int = 0
    """Characters of its text."""
    fan_out: FanOut | None = None
    """The fan-out of which it is a part; None for a root."""
    part_index: int = 0
    """The index of its part in this fan-out."""
    state: State = "waiting"
    retry_at: float | None = None
    """When the model is asked again, in seconds since the epoch; None unless the service is busy."""
    turn_limit: int = 0
    """Maximum number of its turns; 0 if that is not known."""
    turns: list[Turn] = field(default_factory=list)
    usage: UsageStats = field(default_factory=UsageStats)
    """What its model calls and those of all nodes below it have used."""
    running_descendants: int = 0
    """How many of the nodes below it have not ended."""
    answer: str = ""
    """The answer, or why there is none; empty until it has ended."""
    evidence: tuple[TextSpan, ...] = ()
    """The places in the root's text that support the answer."""
    duration_s: float | None = None
    """How long it took, in seconds; None until it has ended."""
    is_cut_off: bool = False
    """Whether the search's events ended before it did."""
    children: list[SearchNode] = field(default_factory=list)
    fan_outs: dict[str, FanOut] = field(default_factory=dict)
    """The fan-outs that its code has made, by their ids."""
    version: int = 0
    """Grows with each change, so that a drawn node can be compared."""

    @property
    def finished(self) -> bool:
        """Whether it has ended, in whatever state."""
        return self.state in FINISHED

    def elapsed_s(self, now: float) -> float:
        """Return how many seconds it took, or has taken so far.

        Args:
            now: The time, in seconds since the epoch.
        """
        if self.duration_s is not None:
            return self.duration_s
        return max(0.0, now - self.started_at)

    def turn_label(self, number: int, form: str) -> str:
        """Return the number of a turn as text; empty if the limit of turns is not known.

        Args:
            number: The number of the turn, from 1; 0 before the first.
            form: A format string for the number and the limit, such as ``{}/{}``.
        """
        if not self.turn_limit or not number:
            return ""
        # After the last turn, the model is asked once more for an answer.
        if number > self.turn_limit:
            return "last call"
        return form.format(number, self.turn_limit)

    @property
    def last_line(self) -> str:
        """The last line of the newest turn that says something: of its code while that runs, or else
        of its answer."""
        if not self.turns:
            return ""
        turn = self.turns[-1]
        text = turn.code if self.state == "running" and turn.code else turn.answer
        for line in reversed(text[-_LAST_LINE_CHARS:].splitlines()):
            line = line.strip()
            if line and not line.startswith("```"):
                return line
        return ""
