"""Assembles the pieces of a stream into the record that is stored if its end never comes."""

from __future__ import annotations

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record

MAX_PARTIAL_CHARS = 64_000_000
"""Characters after which further pieces of a stream are left out."""

StoredStream = (
    records.UserReplOutStream | records.AssistantReplOutStream | records.AssistantChatStream
)
"""A piece of a stream whose complete record is stored."""


def stream_key(record: Record) -> str:
    """Return the key that a stream's pieces share with its complete record; empty for others."""
    match record:
        case records.ReplOut() | records.ReplOutStream():
            is_of_user = isinstance(record, records.UserReplOut | records.UserReplOutStream)
            author = "user" if is_of_user else "assistant"
            return f"{author}:{record.cell}:{record.late}"
        case records.AssistantChat() | records.AssistantChatStream():
            return f"answer:{record.turn}:{record.step}"
    return ""


class PartialRecord:
    """The pieces of a stream so far, as one record."""

    def __init__(self, first: StoredStream) -> None:
        """Start without pieces.

        Args:
            first: The first piece, whose other fields the record gets.
        """
        self._first = first
        self._pieces: list[str] = []
        self._char_count = 0
        self._kinds: list[tuple[str, int]] = []
        """The kinds of output in order, with their characters."""
        self.fresh = False
        """Whether pieces came since the record was last stored."""

    def add(self, piece: StoredStream) -> None:
        """Add a piece, unless there is too much already."""
        if self._char_count >= MAX_PARTIAL_CHARS:
            return
        kind = piece.kind
        text = piece.text
        if isinstance(piece, records.AssistantChatStream):
            text = self._fence_before(kind) + text
        # Each displayed value counts separately.
        if not self._kinds or self._kinds[-1][0] != kind or kind == "display":
            self._kinds.append((kind, 0))
        _, kind_chars = self._kinds[-1]
        self._kinds[-1] = (kind, kind_chars + len(text))
        self._pieces.append(text)
        self._char_count += len(text)
        self.fresh = True

    def record(self) -> Record:
        """Return the record of all pieces so far."""
        text = "".join(self._pieces)
        self._pieces = [text]
        first = self._first
        if isinstance(first, records.AssistantChatStream):
            return records.AssistantChat(
                text,
                turn=first.turn,
                step=first.step,
                party=first.party,
                is_prose=first.kind == "prose",
                time=first.time,
            )
        record_type: type[records.ReplOut] = records.AssistantReplOut
        if isinstance(first, records.UserReplOutStream):
            record_type = records.UserReplOut
        kinds = tuple(self._kinds)
        return record_type(text, cell=first.cell, late=first.late, kinds=kinds, time=first.time)

    def _fence_before(self, kind: str) -> str:
        """Return the fence line that the stream omits before this kind."""
        previous_kind = self._kinds[-1][0] if self._kinds else "chat"
        if kind in (previous_kind, "prose"):
            return ""
        fence = "```python\n" if kind == "code" else "```\n"
        is_at_line_start = not self._pieces or self._pieces[-1].endswith("\n")
        if is_at_line_start:
            return fence
        return f"\n{fence}"
