"""A cell as an editor shows it: a tool call with its code, its output and what it has changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mahtab_tui.bus.escaping import escape_output, shorten_line
from mahtab_tui.bus.fences import fenced
from mahtab_tui.bus.hidden_characters import visible
from mahtab_tui.bus.pens import strip_colours
from mahtab_tui.worker.cells.capture import omission

MAX_HEAD_CHARS = 10_000
MAX_TAIL_CHARS = 10_000
"""Characters of the beginning and of the end of a cell's output that an editor gets."""
MAX_PICTURES = 8
"""Pictures of a cell that an editor gets."""
MAX_TITLE_CHARS = 80
"""Characters of a cell's first line, which is its title."""


class CellPicture(NamedTuple):
    """A picture of a cell."""

    mime: str
    data: str
    """Its bytes in base64."""
    name: str = ""
    """The name by which the cell replaces it; empty if it cannot."""


@dataclass
class CellCard:
    """A tool call of the protocol. Each update of it replaces its whole content."""

    id: str
    """The ID of the tool call."""
    code: str = ""
    title: str = ""
    """What it is called; empty for the first line of the code."""
    status: Literal["pending", "in_progress", "completed", "failed"] = "pending"
    notes: list[str] = field(default_factory=list)
    """What the cell has changed, and why it has not run, a line each."""
    pictures: list[CellPicture] = field(default_factory=list)
    kind: Literal["execute", "search", "other"] = "execute"
    is_announced: bool = False
    """Whether the editor knows of it."""
    _head: str = ""
    """The beginning of the output."""
    _tail: str = ""
    """The end of the rest of the output."""
    _omitted_chars: int = 0
    """Between the two."""

    @property
    def is_finished(self) -> bool:
        return self.status in ("completed", "failed")

    def add_output(self, text: str) -> None:
        """Add printed text. The middle of a long output is left out."""
        free_head_chars = MAX_HEAD_CHARS - len(self._head)
        self._head += text[:free_head_chars]
        tail = self._tail + text[free_head_chars:]
        self._omitted_chars += max(0, len(tail) - MAX_TAIL_CHARS)
        self._tail = tail[-MAX_TAIL_CHARS:]

    def replace_output(self, text: str) -> None:
        """Forget the output so far, and take this one."""
        self._head = ""
        self._tail = ""
        self._omitted_chars = 0
        self.add_output(text)

    def clear_output(self) -> None:
        """Forget the output and the pictures so far."""
        self.replace_output("")
        self.pictures.clear()

    def add_picture(self, picture: CellPicture) -> None:
        """Add a picture, or put it in the place of the one with its name."""
        names = [other.name for other in self.pictures]
        if picture.name and picture.name in names:
            self.pictures[names.index(picture.name)] = picture
        elif len(self.pictures) < MAX_PICTURES:
            self.pictures.append(picture)

    def finish(self, succeeded: bool, note: str = "") -> None:
        """End the cell.

        Args:
            note: A line about its end.
        """
        self.status = "completed" if succeeded else "failed"
        if note:
            self.notes.append(note)

    @property
    def full_title(self) -> str:
        first_line = self.code.strip().partition("\n")[0]
        return shorten_line(self.title or first_line, MAX_TITLE_CHARS) or "Python"

    def texts(self) -> list[str]:
        """Return the code, the output and the notes as Markdown."""
        middle = omission(self._omitted_chars) if self._omitted_chars else ""
        output = f"{self._head}{middle}{self._tail}"
        texts: list[str] = []
        if self.code:
            texts.append(fenced(visible(self.code)))
        if output.strip():
            texts.append(fenced(escape_output(strip_colours(output)), "text"))
        return texts + self.notes
