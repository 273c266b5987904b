"""Folds what stands beside the words and cells of a session: tool calls, searches and warnings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.hidden_entries import cell_entry, tool_entry
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line

_TITLE = 300
"""Characters of a line about an aside."""


class Part(NamedTuple):
    """A text of an aside."""

    kind: Literal["line", "text", "code", "output"]
    """A line names the call whose texts follow."""
    text: str


_KINDS: dict[type[Record], Literal["text", "code", "output"]] = {
    records.SearchReplIn: "code",
    records.SearchReplOut: "output",
    records.SearchFinal: "text",
}
"""Result of folding the records of a search."""


@dataclass(eq=False)
class Annotation:
    """A tool call with its result, a search with all its calls, or a warning, which has no
    parts."""

    kind: Literal["tool", "search", "notice"]
    title: str
    """One line."""
    party: str
    turn: int | None
    entry: str
    """Its name in `bus.left_out`; of a search, that of the cell that made it. Empty if there is
    none."""
    calls: list[list[Part]] = field(default_factory=list)
    """The texts of each call, in the order in which the calls began."""

    def cover(self, told: Callable[[str], str]) -> None:
        """Replace each text by what `told` returns for it."""
        self.title = told(self.title)
        for call in self.calls:
            call[:] = [part._replace(text=told(part.text)) for part in call]


class Asides:
    """Makes asides of records, in the order in which they begin, and goes on with them as more is
    known."""

    def __init__(self, add: Callable[[Annotation], None]) -> None:
        self._add = add
        self._tools: dict[str, Annotation] = {}
        self._searches: dict[str, _Search] = {}
        self._folds: dict[type[Record], Callable[[Any], None]] = {
            records.AssistantTool: self._tool,
            records.Notice: self._warning,
            records.Kernel: self._warning,
            records.SearchBegin: self._begin,
            records.SearchReplIn: self._search_event,
            records.SearchReplOut: self._search_event,
            records.SearchFinal: self._search_event,
            records.Usage: self._search_event,
        }

    def fold(self, record: Record) -> None:
        if fold := self._folds.get(type(record)):
            fold(record)

    def _tool(self, record: records.AssistantTool) -> None:
        aside = self._tools.get(record.call or "")
        if aside is None:
            aside = Annotation(
                "tool", "", record.party or "model", record.turn, tool_entry(record.call)
            )
            self._tools[record.call or ""] = aside
            self._add(aside)
        ended = "" if record.state in ("ok", "running") else f" · {record.state}"
        aside.title = _line(f"{record.name} {record.arguments}") + ended
        aside.calls = [[Part("output", record.text)]] if record.text else []

    def _warning(self, record: records.Notice | records.Kernel) -> None:
        if (
            record.level != "info"
            if isinstance(record, records.Notice)
            else record.state == "dead" and record.text
        ):
            self._add(Annotation("notice", _line(record.text), "", None, ""))

    def _begin(self, record: records.SearchBegin) -> None:
        search = self._searches.get(record.tree)
        if search is None:
            search = self._searches[record.tree] = _Search(record)
            self._add(search.aside)
        search.begin(record)

    def _search_event(self, record: records.SearchRecord | records.Usage) -> None:
        if (search := self._searches.get(record.tree or "")) is not None:
            search.fold(record)


class _Search:
    """A search: its calls in the order in which they began, each with all its texts."""

    def __init__(self, begin: records.SearchBegin) -> None:
        entry = "" if begin.cell is None else cell_entry(begin.cell)
        self.aside = Annotation("search", "", begin.model or "model", None, entry)
        self._query = _line(begin.text)
        self._calls: dict[str, list[Part]] = {}
        """The texts of each call, by its node."""
        self._asked = 0
        """How often a model was asked."""
        self._cost = 0.0
        self._ended = ""

    def begin(self, record: records.SearchBegin) -> None:
        if record.node in self._calls:
            return
        part = f" · part {record.index + 1:,} of {record.of:,}" if record.of > 1 else ""
        self._calls[record.node] = [
            Part("line", _line(f"{record.node} · {record.model}{part} · {record.text}"))
        ]
        self.aside.calls.append(self._calls[record.node])
        self._tell()

    def fold(self, record: records.SearchRecord | records.Usage) -> None:
        if isinstance(record, records.Usage):
            self._asked += 1
            self._cost += record.cost or 0.0
        elif (parts := self._calls.get(record.node)) is not None:
            kind = _KINDS.get(type(record))
            if kind is not None and (record.text or kind == "code"):
                parts.append(Part(kind, record.text))
            if isinstance(record, records.SearchFinal) and record.node == next(iter(self._calls)):
                self._ended = record.state
        self._tell()

    def _tell(self) -> None:
        cost = f" · ${self._cost:.4f}" if self._cost else ""
        ended = "" if self._ended in ("done", "") else f" · {self._ended}"
        self.aside.title = (
            f"Search: {self._query} · {self._asked:,} call{'s' * (self._asked != 1)}{cost}{ended}"
        )


def _line(text: str) -> str:
    line = one_line(text).strip()
    return line if len(line) <= _TITLE else f"{line[:_TITLE]}…"
