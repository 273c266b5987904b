"""Assembles the pieces of a stream to the whole record that it will become."""

from __future__ import annotations

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record

LIMIT = 64_000_000
"""Characters of one partial record; output beyond it is kept only by the whole record."""


StoredStream = (
    records.UserReplOutStream | records.AssistantReplOutStream | records.AssistantChatStream
)
"""A piece of a stream whose whole record is kept on disk."""


def key_of(record: Record) -> str:
    """Return the name of the output or answer to which a piece or whole record belongs; empty for
    other records."""
    match record:
        case records.ReplOut() | records.ReplOutStream():
            whose = (
                "user"
                if isinstance(record, records.UserReplOut | records.UserReplOutStream)
                else "assistant"
            )
            return f"{whose}:{record.cell}:{record.late}"
        case records.AssistantChat() | records.AssistantChatStream():
            return f"answer:{record.turn}:{record.step}"
    return ""


class Partial:
    """The pieces of one stream so far."""

    def __init__(self, first: StoredStream) -> None:
        self._first = first
        self._pieces: list[str] = []
        self._length = 0
        self._kinds: list[tuple[str, int]] = []
        """Kinds with their numbers of characters, as `ReplOut.kinds`."""
        self.fresh = False
        """Whether a piece came since the partial was last stored."""

    def add(self, piece: StoredStream) -> None:
        if self._length >= LIMIT:
            return
        kind, text = piece.kind, piece.text
        if isinstance(piece, records.AssistantChatStream):
            text = self._fence(kind) + text
        if not self._kinds or self._kinds[-1][0] != kind or kind == "display":
            self._kinds.append((kind, 0))
        self._kinds[-1] = kind, self._kinds[-1][1] + len(text)
        self._pieces.append(text)
        self._length += len(text)
        self.fresh = True

    def record(self) -> Record:
        """Return the whole record so far."""
        self._pieces = [text] = ["".join(self._pieces)]
        first = self._first
        if isinstance(first, records.AssistantChatStream):
            return records.AssistantChat(
                text, turn=first.turn, step=first.step, party=first.party, time=first.time
            )
        whole = (
            records.UserReplOut
            if isinstance(first, records.UserReplOutStream)
            else records.AssistantReplOut
        )
        return whole(
            text, cell=first.cell, late=first.late, kinds=tuple(self._kinds), time=first.time
        )

    def _fence(self, kind: str) -> str:
        """Return the fence line that the stream left out before a piece of this kind."""
        before = self._kinds[-1][0] if self._kinds else "chat"
        if kind == before:
            return ""
        ended = not self._pieces or self._pieces[-1].endswith("\n")
        return ("" if ended else "\n") + ("```python\n" if kind == "code" else "```\n")
