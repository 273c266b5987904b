"""Records as XML for a model, as styled text for a screen, as bytes for a pipe."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from mahtab_tui.bus.records import Record
from mahtab_tui.bus.tags import ROUTES

if TYPE_CHECKING:
    from rich.text import Text

_OURS = "|".join(sorted((re.escape(tag) for tag in ROUTES), key=len, reverse=True))
_FORGEABLE = re.compile(rf"<(?=/?\s*(?:{_OURS})\b)|&(?=(?:amp;)*lt;)", re.IGNORECASE)


def defuse(text: str) -> str:
    """Escape only what could be read as one of our own tags, or as that escape; all else stays as it is."""
    return _FORGEABLE.sub(lambda matched: "&lt;" if matched[0] == "<" else "&amp;", text)


def restore(text: str) -> str:
    """The inverse of `defuse`."""
    return re.sub(r"&(?:(lt);(?=/?\s*(?:" + _OURS + r")\b)|amp;(?=(?:amp;)*lt;))", lambda m: "<" if m[1] else "&", text, flags=re.IGNORECASE)


class XMLFormatter(logging.Formatter):
    """A record as an XML element that its content cannot break out of."""

    def format(self, record: logging.LogRecord) -> str:
        return self.format_record(Record.of(record))

    def format_record(self, record: Record) -> str:
        """The element. Attributes that are lists, mappings, null or empty stay out."""
        attrs = "".join(
            f" {name}={quoteattr(_attribute(value))}"
            for name, value in record.attrs.items()
            if isinstance(value, str | int | float) and value != ""
        )
        return f"<{record.tag}{attrs}>{defuse(record.text)}</{record.tag}>"


def _attribute(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class RichFormatter(logging.Formatter):
    """A record as `rich.text.Text`; what it contains is never read as markup."""

    def format(self, record: logging.LogRecord) -> str:
        return self.text(Record.of(record)).plain

    def text(self, record: Record) -> Text:
        """The record's text with its colours."""
        from mahtab_tui.bus.overwrite import collapse
        from mahtab_tui.bus.sanitize import styled

        return styled(collapse(record.text))


class BytesFormatter(logging.Formatter):
    """A record's text as UTF-8 bytes; what cannot be encoded is replaced."""

    def format(self, record: logging.LogRecord) -> str:
        return self.encode(Record.of(record)).decode("utf-8")

    def encode(self, record: Record) -> bytes:
        """The bytes."""
        return record.text.encode("utf-8", "replace")
