"""What is being streamed, put together as the whole record that it will become."""

from __future__ import annotations

from typing import Any

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record

LIMIT = 64_000_000
"""Characters of one partial; what an output prints beyond is kept only by its whole record."""


def key_of(record: Record) -> str:
    """Names the output or answer that a stream's piece, or the whole record, belongs to."""
    whole, attrs = tags.WHOLE_OF.get(record.tag, record.tag), record.attrs
    names = ("turn", "step") if whole == tags.ASSISTANT_CHAT else ("cell", "late")
    return ":".join([whole, *(str(attrs.get(name)) for name in names)])


class Partial:
    """The pieces of one stream so far."""

    def __init__(self, first: Record) -> None:
        self._tag = tags.WHOLE_OF[first.tag]
        self._attrs = {name: value for name, value in first.attrs.items() if name not in ("kind", "block")}
        self._time = first.time
        self._pieces: list[str] = []
        self._length = 0
        self._kinds: list[list[Any]] = []
        """[kind, characters], as an output's ``kinds``."""
        self.fresh = False
        """Whether something came since it was last kept."""

    def add(self, piece: Record) -> None:
        """Take one more piece of the stream."""
        if self._length >= LIMIT:
            return
        kind, text = piece.attrs.get("kind"), piece.text
        if self._tag == tags.ASSISTANT_CHAT:
            text = self._fence(kind) + text
        if not self._kinds or self._kinds[-1][0] != kind or kind == "display":
            self._kinds.append([kind, 0])
        self._kinds[-1][1] += len(text)
        self._pieces.append(text)
        self._length += len(text)
        self.fresh = True

    def record(self) -> Record:
        """The whole record as far as it has come."""
        self._pieces = ["".join(self._pieces)]
        attrs = dict(self._attrs)
        if self._tag != tags.ASSISTANT_CHAT:
            attrs["kinds"] = [list(kind) for kind in self._kinds]
        return Record(self._tag, self._pieces[0], attrs, self._time)

    def _fence(self, kind: object) -> str:
        """The fence line that the stream has left out before a piece of this kind."""
        before = self._kinds[-1][0] if self._kinds else "chat"
        if kind == before:
            return ""
        ended = not self._pieces or self._pieces[-1].endswith("\n")
        return ("" if ended else "\n") + ("```python\n" if kind == "code" else "```\n")
