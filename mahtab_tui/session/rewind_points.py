"""The points of a session to which it can be rewound (`rewinding.py`): its questions and its cells.

They are found in the session's records, each with what its cells have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

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
    """The number of the first cell that ran after the point; if none has, the number of the next cell."""
    turn: int | None = None
    """The number of its question, or of the question to whose answer its cells belong; None for cells of
    the user."""
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

    def add_cell(self, cell: int, entry: str) -> None:
        """Note that a cell belongs to the point.

        Args:
            cell: Its number.
            entry: The name of its entry.
        """
        self.cells.append(cell)
        self.entries[entry] = None

    def copy(self) -> RewindPoint:
        """Return a point that stays as this one is now, for other threads."""
        return replace(
            self,
            cells=self.cells[:],
            variables=self.variables.copy(),
            files=self.files.copy(),
            entries=self.entries.copy(),
        )


class _PointsOfCell(NamedTuple):
    """The points to which a cell belongs."""

    own: RewindPoint
    """The point before the cell, or before the step of which it is a part."""
    question: RewindPoint | None
    """The question in whose answer the cell ran; None if it ran in none."""


class RewindPoints(RecordHandler):
    """Follows the questions and cells of a session, and what each has changed.

    Any thread may call it. The records of a resumed session are followed when they are first needed.
    """

    kinds = (UserChat, AssistantChat, AssistantTool, ReplIn, Namespace, FileChanges)

    def __init__(self, past: Iterable[Record] = ()) -> None:
        """
        Args:
            past: The records of a resumed session.
        """
        super().__init__()
        self._unfollowed_past = past
        """Records of the resumed session that are not followed yet."""
        self._points: dict[str, RewindPoint] = {}
        """The points by their entries, the oldest first."""
        self._points_by_cell: dict[int, _PointsOfCell] = {}
        self._answer_entries: set[str] = set()
        self._last_cell = 0

    def all(self) -> list[RewindPoint]:
        """Return all points as they are now, the oldest first."""
        with self._caught_up():
            return [point.copy() for point in self._points.values()]

    def author_of(self, cell: int) -> str:
        """Return who has run a cell; empty if that is unknown."""
        point = self._own_point_of(cell)
        return "" if point is None else point.author

    def has_changes(self, cell: int) -> bool:
        """Return whether a cell, or another of its step, has changed variables or files."""
        point = self._own_point_of(cell)
        return point is not None and bool(point.variables or point.files)

    def fold(self, record: Record) -> None:
        with self._caught_up():
            self._follow(record)

    @contextmanager
    def _caught_up(self) -> Iterator[None]:
        """Hold the handler's lock, once the records of the resumed session are followed."""
        self.acquire()
        try:
            past = self._unfollowed_past
            self._unfollowed_past = ()
            for record in past:
                self._follow(record)
            yield
        finally:
            self.release()

    def _own_point_of(self, cell: int) -> RewindPoint | None:
        """Return the point before a cell or its step; None if there is no such cell."""
        with self._caught_up():
            points = self._points_by_cell.get(cell)
        return None if points is None else points.own

    def _follow(self, record: Record) -> None:
        match record:
            case UserChat():
                self._start_question(record)
            case AssistantChat() | AssistantTool():
                self._note_answer(record)
            case ReplIn(cell=int(cell)):
                self._start_cell(record, cell)
            case Namespace(cell=int(cell), restored=False):
                signs = {change.name: change.sign for change in record.changes}
                for point in self._points_of(cell):
                    point.variables |= signs
            case FileChanges(cell=int(cell)):
                changes_by_path = {change.path: change for change in record.changes}
                for point in self._points_of(cell):
                    point.files |= changes_by_path

    def _points_of(self, cell: int) -> list[RewindPoint]:
        """Return the one or two points to which a cell belongs; none if there is no such cell."""
        points = self._points_by_cell.get(cell, ())
        return [point for point in points if point is not None]

    def _start_question(self, record: UserChat) -> None:
        entry = record.entry_name
        # A question that joins a running one belongs to it.
        if not entry or entry in self._points:
            return
        self._points[entry] = RewindPoint(
            entry=entry,
            mode="ask",
            author=YOU,
            text=record.text,
            first_cell=self._last_cell + 1,
            turn=record.turn,
            entries={entry: None},
        )

    def _note_answer(self, record: AssistantChat | AssistantTool) -> None:
        """Note that an answer, or a tool call in one, belongs to its question."""
        self._answer_entries.add(record.entry_name)
        question = self._points.get(question_entry(record.turn))
        if question is not None:
            question.entries[record.entry_name] = None

    def _start_cell(self, record: ReplIn, cell: int) -> None:
        """Note a cell: it begins a point of its own, or belongs to that of an earlier cell of its
        step."""
        self._last_cell = max(self._last_cell, cell)
        # The cells of the user and of joined agents belong to no question.
        is_in_answer = not isinstance(record, UserReplIn) and record.guest is None
        question: RewindPoint | None = None
        point_entry = record.entry_name
        if is_in_answer:
            question = self._points.get(question_entry(record.turn))
            # The words of a step come before its cells, and go together with them.
            step_entry = answer_entry(record.turn, record.step)
            if step_entry in self._answer_entries:
                point_entry = step_entry

        point = self._points.get(point_entry)
        if point is None:
            point = self._make_cell_point(point_entry, record, cell)
            self._points[point_entry] = point
        else:
            point.text = f"{point.text.rstrip()}\n\n{record.text}"
        self._points_by_cell[cell] = _PointsOfCell(point, question)
        for owner in self._points_of(cell):
            owner.add_cell(cell, record.entry_name)

    def _make_cell_point(self, entry: str, record: ReplIn, cell: int) -> RewindPoint:
        """Return the point before a cell, to which the cell itself is not added yet."""
        return RewindPoint(
            entry=entry,
            mode="python",
            author=record.party or YOU,
            text=record.text,
            first_cell=cell,
            turn=record.turn,
            position=record.position,
            entries={entry: None},
        )
