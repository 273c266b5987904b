"""Which streamed pieces belong to which whole record."""

from __future__ import annotations

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record

WHOLE_OF = {
    tags.USER_REPL_OUT_STREAM: tags.USER_REPL_OUT,
    tags.ASSISTANT_REPL_OUT_STREAM: tags.ASSISTANT_REPL_OUT,
    tags.ASSISTANT_CHAT_STREAM: tags.ASSISTANT_CHAT,
}
"""The tag of the whole, by the tag of its pieces."""

_IDENTITY = ("cell", "turn", "step")


def stream_key(record: Record) -> str | None:
    """The same for the pieces of one output or answer and for the whole of it; None for records that are not streamed."""
    whole = WHOLE_OF.get(record.tag, record.tag)
    if whole not in WHOLE_OF.values() or record.attrs.get("late"):
        return None
    return " ".join([whole, *(str(record.attrs.get(name)) for name in _IDENTITY)])
