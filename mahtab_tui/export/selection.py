"""Chooses the parts of a session that are exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.export.annotations import Annotation, Part
from mahtab_tui.export.entries import Cell, Conversation, Entry, Output

LONGEST = 100_000
"""Characters of one cell's output that are exported, unless all is wanted."""


class NothingToExport(Exception):
    """There is nothing to export; the message is a sentence."""


class Selected(NamedTuple):
    """The entries to export, and what is to be known of them."""

    entries: Sequence[Entry]
    session: str
    """Its id."""
    title: str
    costs: Mapping[int, float]
    """US dollars by question."""
    is_hidden: Callable[[Entry], bool]
    is_private: Callable[[Entry], bool]
    longest: int | None
    """Characters of one cell's output; None for all."""

    def sentence(self, file: str) -> str:
        cells = sum(isinstance(entry, Cell) for entry in self.entries)
        private = sum(map(self.is_private, self.entries))
        long = sum(map(self._is_long, self.entries))
        parts = [f"Exported {cells:,} cell{'s' * (cells != 1)} to {one_line(file)}."]
        if private:
            parts.append(
                f"Left out: {private:,} that use{'s' * (private == 1)} a private variable."
            )
        if long:
            parts.append(
                f"Outputs of {long:,} are shortened: add whole (--whole) to keep them complete."
            )
        return " ".join(parts)

    def _is_long(self, entry: Entry) -> bool:
        if self.longest is None:
            return False
        if isinstance(entry, Cell):
            return sum(len(output.text) for output in entry.outputs) > self.longest
        return isinstance(entry, Annotation) and sum(map(_size, entry.calls)) > self.longest

    def parts(self, aside: Annotation) -> Iterator[Part]:
        """Return the texts of a tool call or a search; of a longer one those at its beginning, and
        how much is left out."""
        room = self.longest
        for place, call in enumerate(aside.calls):
            if room is not None and (room := room - _size(call)) < 0:
                if aside.kind == "search" and place:
                    yield Part(
                        "line", f"… {len(aside.calls) - place:,} more calls are left out here …"
                    )
                    return
                call = [
                    part._replace(text=_beginning(part.text, self.longest or 0)) for part in call
                ]
            yield from call

    def outputs(self, cell: Cell) -> list[Output]:
        """Return a cell's output; of a longer one its beginning and end, and between them how much
        is left out."""
        if self.longest is None or not self._is_long(cell):
            return cell.outputs
        head, tail, rest = list[Output](), list[Output](), list(cell.outputs)
        _take(rest, head, self.longest // 2, last=False)
        _take(rest, tail, self.longest - self.longest // 2, last=True)
        left = sum(len(output.text) for output in rest)
        return [
            *head,
            Output("stdout", f"\n… {left:,} characters of the output are left out here …\n"),
            *reversed(tail),
        ]


def select(
    conversation: Conversation, session: str, *, shown: bool = False, longest: int | None = LONGEST
) -> Selected:
    """Choose what to export. shown: nothing that was hidden, replaced or undone. longest:
    characters of one cell's output; None for all.

    Raises `NothingToExport`.
    """
    entries: Sequence[Entry] = conversation.entries
    if shown:
        undone = {entry.entry for entry in entries if isinstance(entry, Cell) and entry.undone}
        entries = [
            entry
            for entry in entries
            if not conversation.hidden(entry) and entry.entry not in undone
        ]
    entries = [
        entry
        for entry in entries
        if not (isinstance(entry, Annotation) and conversation.private(entry))
    ]
    if all(isinstance(entry, Annotation) for entry in entries):
        raise NothingToExport("Nothing has been said or run yet.")
    title = plain(conversation.title)
    return Selected(
        entries,
        session,
        title,
        conversation.costs,
        conversation.hidden,
        conversation.private,
        longest,
    )


def _size(call: Sequence[Part]) -> int:
    return sum(len(part.text) for part in call)


def _beginning(text: str, limit: int) -> str:
    return (
        text
        if len(text) <= limit
        else f"{text[:limit]}\n… {len(text) - limit:,} characters are left out here …"
    )


def _take(rest: list[Output], taken: list[Output], room: int, *, last: bool) -> None:
    """Move outputs from one end, up to so many characters; of text that is cut, the remainder
    stays."""
    while rest and room > 0:
        output = rest.pop(-1 if last else 0)
        if len(output.text) > room and output.mime:  # a display is whole or left out
            rest.insert(len(rest) if last else 0, output)
            return
        piece = output.text[-room:] if last else output.text[:room]
        taken.append(output._replace(text=piece))
        if len(piece) < len(output.text):
            rest.insert(
                len(rest) if last else 0,
                output._replace(
                    text=output.text[: -len(piece)] if last else output.text[len(piece) :]
                ),
            )
        room -= len(piece)
