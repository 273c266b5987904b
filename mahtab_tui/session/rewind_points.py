"""The points of a session to which it can be rewound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mahtab_tui.bus.entry_names import answer_entry, question_entry
from mahtab_tui.bus.records import (
    AssistantChat,
    AssistantTool,
    FileChanges,
    Namespace,
    Record,
    RecordHandler,
    ReplIn,
    UserChat,
    UserReplIn,
)
from mahtab_tui.bus.values import FileChange, Mode
from mahtab_tui.session.name_authors import YOU


@dataclass(eq=False)
class RewindPoint:
    """The moment before a question, before the cells of a step of its answer, or before another
    cell."""

    entry: str
    """The first entry after it, which is its name within the session."""
    mode: Mode
    """Whether its input is a cell or a question."""
    author: str
    text: str
    """The input: a question, or the code of the cells."""
    first_cell: int
    """The first cell that ran after it, or would have run next."""
    turn: int | None = None
    """The question that it is, or to which its cells belong."""
    cells: list[int] = field(default_factory=list)
    """Its cells; those of a question are the cells of its whole answer."""
    position: int | None = None
    """The position of its cell in the notebook; None if it stands in none."""
    variables: dict[str, str] = field(default_factory=dict)
    """What its cells changed: a sign by the name of each variable."""
    files: dict[str, FileChange] = field(default_factory=dict)
    """What its cells have done to files, by path."""
    entries: dict[str, None] = field(default_factory=dict)
    """Its entries, in order."""

    @property
    def label(self) -> str:
        """``In 4``, ``In 4 to 6``, or ``question 2``."""
        if self.mode == "ask":
            return f"question {self.turn}"
        first_label = f"In {self.cells[0]}"
        if len(self.cells) == 1:
            return first_label
        return f"{first_label} to {self.cells[-1]}"

    @property
    def name(self) -> str:
        """``cell 4`` or ``question 2``, as a program names it."""
        return f"question {self.turn}" if self.mode == "ask" else f"cell {self.cells[0]}"

    def copy(self) -> RewindPoint:
        """Return a point that stays as this one is now, for other threads."""
        return replace(
            self,
            cells=self.cells[:],
            variables=self.variables.copy(),
            files=self.files.copy(),
            entries=self.entries.copy(),
        )


class RewindPoints(RecordHandler):
    """Follows the questions and cells of a session, and what each has changed."""

    kinds = (UserChat, AssistantChat, AssistantTool, ReplIn, Namespace, FileChanges)

    def __init__(self, past: Iterable[Record] = ()) -> None:
        """
        Args:
            past: The records of a resumed session.
        """
        super().__init__()
        self._past = past
        """Records that are not followed yet."""
        self._points: dict[str, RewindPoint] = {}
        """The points by their entries, the oldest first."""
        self._points_by_cell: dict[int, tuple[RewindPoint, ...]] = {}
        """The point of a cell, and that of the question for which it ran."""
        self._answers: set[str] = set()
        """Entries of answers."""
        self._last_cell = 0

    def all(self) -> list[RewindPoint]:
        """Return all points as they are now, the oldest first. Any thread may call it."""
        self.acquire()
        try:
            self._catch_up()
            return [point.copy() for point in self._points.values()]
        finally:
            self.release()

    def author_of(self, cell: int) -> str:
        """Return who has run a cell; empty if that is unknown. Any thread may call it."""
        point = self._point_of(cell)
        return point.author if point else ""

    def has_changes(self, cell: int) -> bool:
        """Return whether a cell, or another of its step, has changed variables or files.

        Any thread may call it.
        """
        point = self._point_of(cell)
        return bool(point and (point.variables or point.files))

    def _point_of(self, cell: int) -> RewindPoint | None:
        """Return the point of a cell, also of one whose records are not followed yet."""
        self.acquire()
        try:
            self._catch_up()
            points = self._points_by_cell.get(cell)
            return points[0] if points else None
        finally:
            self.release()

    def _catch_up(self) -> None:
        past = self._past
        self._past = ()
        for record in past:
            self._follow(record)

    def fold(self, record: Record) -> None:
        self._catch_up()
        self._follow(record)

    def _follow(self, record: Record) -> None:
        match record:
            case UserChat():
                self._start_question(record)
            case AssistantChat() | AssistantTool():
                self._answers.add(record.entry_name)
                question = self._points.get(question_entry(record.turn))
                if question is not None:
                    question.entries[record.entry_name] = None
            case ReplIn(cell=int(cell)):
                self._start_cell(record, cell)
            case Namespace(cell=int(cell), restored=False):
                signs = {change.name: change.sign for change in record.changes}
                for point in self._points_by_cell.get(cell, ()):
                    point.variables |= signs
            case FileChanges(cell=int(cell)):
                for point in self._points_by_cell.get(cell, ()):
                    point.files |= {change.path: change for change in record.changes}

    def _start_question(self, record: UserChat) -> None:
        entry = record.entry_name
        # A question that joins a running one belongs to it.
        if not entry or entry in self._points:
            return
        self._points[entry] = RewindPoint(
            entry, "ask", YOU, record.text, self._last_cell + 1, record.turn, entries={entry: None}
        )

    def _start_cell(self, record: ReplIn, cell: int) -> None:
        self._last_cell = max(self._last_cell, cell)
        is_step = not isinstance(record, UserReplIn) and record.guest is None
        entry = record.entry_name
        if is_step and answer_entry(record.turn, record.step) in self._answers:
            entry = answer_entry(record.turn, record.step)
        point = self._points.get(entry)
        if point is None:
            author = record.party or YOU
            point = RewindPoint(
                entry,
                "python",
                author,
                record.text,
                cell,
                record.turn,
                position=record.position,
                entries={entry: None},
            )
            self._points[entry] = point
        else:
            point.text = f"{point.text.rstrip()}\n\n{record.text}"
        question = self._points.get(question_entry(record.turn)) if is_step else None
        points = (point,) if question is None else (point, question)
        for changed_point in points:
            changed_point.cells.append(cell)
            changed_point.entries[record.entry_name] = None
        self._points_by_cell[cell] = points
