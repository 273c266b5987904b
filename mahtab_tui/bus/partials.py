"""What is being streamed, put together as the whole record that it will become."""

from __future__ import annotations

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record

LIMIT = 64_000_000
"""Characters of one partial; what an output prints beyond is kept only by its whole record."""


Piece = records.UserReplOutStream | records.AssistantReplOutStream | records.AssistantChatStream
"""A piece of what a whole record ends that is kept on disk."""


def key_of(record: Record) -> str:
    """Names the output or answer that a stream's piece, or the whole record, belongs to; empty of other records."""
    match record:
        case records.ReplOut() | records.ReplOutStream():
            whose = "user" if isinstance(record, records.UserReplOut | records.UserReplOutStream) else "assistant"
            return f"{whose}:{record.cell}:{record.late}"
        case records.AssistantChat() | records.AssistantChatStream():
            return f"answer:{record.turn}:{record.step}"
    return ""


class Partial:
    """The pieces of one stream so far."""

    def __init__(self, first: Piece) -> None:
        self._first = first
        self._pieces: list[str] = []
        self._length = 0
        self._kinds: list[tuple[str, int]] = []
        """Kinds and characters, as an output's `kinds`."""
        self.fresh = False
        """Whether something came since it was last kept."""

    def add(self, piece: Piece) -> None:
        """Take one more piece of the stream."""
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
        """The whole record as far as it has come."""
        self._pieces = [text] = ["".join(self._pieces)]
        first = self._first
        if isinstance(first, records.AssistantChatStream):
            return records.AssistantChat(text, turn=first.turn, step=first.step, party=first.party, time=first.time)
        whole = records.UserReplOut if isinstance(first, records.UserReplOutStream) else records.AssistantReplOut
        return whole(text, cell=first.cell, late=first.late, kinds=tuple(self._kinds), time=first.time)

    def _fence(self, kind: str) -> str:
        """The fence line that the stream has left out before a piece of this kind."""
        before = self._kinds[-1][0] if self._kinds else "chat"
        if kind == before:
            return ""
        ended = not self._pieces or self._pieces[-1].endswith("\n")
        return ("" if ended else "\n") + ("```python\n" if kind == "code" else "```\n")
