"""Masks secrets in texts that arrive in pieces, and in all records of a log."""

from __future__ import annotations

import logging
from collections import OrderedDict

from mahtab_tui.bus.masking import Secrets, mask_slice
from mahtab_tui.bus.records import Record, Stream, get_record

MAX_STREAMS = 64
"""Streams that may be masked at the same time."""


class MaskedStream:
    """Masks a text that arrives in pieces. It holds back what may be the start of a secret."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._tail = ""
        """The possible start of a secret."""
        self._displayed_chars = 0
        """How much of the tail was returned already."""

    def feed(self, text: str) -> str:
        """Return what may be displayed after a new piece."""
        text = self._tail + text
        matcher = self._secrets.matcher
        spans = matcher.spans(text)
        tail_start, displayable_chars = matcher.find_partial(text)
        if len(text) - tail_start <= displayable_chars:
            display_end = len(text)
        else:
            display_end = max(tail_start, self._displayed_chars)
        # The end of a secret may be the start of another one. It is masked with the first.
        if spans and tail_start > spans[-1].start:
            display_end = max(display_end, spans[-1].end)

        piece = mask_slice(text, spans, self._displayed_chars, display_end)
        self._tail = text[tail_start:]
        self._displayed_chars = display_end - tail_start
        return piece

    def finish(self) -> str:
        """Return what was held back."""
        text = self._tail
        if not text:
            return ""
        piece = mask_slice(text, self._secrets.spans(text), self._displayed_chars, len(text))
        self._tail = ""
        self._displayed_chars = 0
        return piece


class MaskingFilter(logging.Filter):
    """Masks all records of a log before its handlers get them."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets
        self._streams: OrderedDict[tuple[object, ...], MaskedStream] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._secrets.matcher.secrets:
            return True
        original = get_record(record)
        masked = self.mask_record(original)
        record.msg = masked.text
        record.args = None
        record.__dict__["record"] = masked
        # Drop a piece of a stream that is held back as a whole.
        is_held_back = bool(original.text) and not masked.text and isinstance(original, Stream)
        return not is_held_back

    def mask_record(self, record: Record) -> Record:
        """Mask a record.

        Only the complete record has the text that a stream held back at its end.
        """
        if record.text and isinstance(record, Stream):
            return record.changed(text=self._stream(record.stream).feed(record.text))
        return self._secrets.mask_record(record)

    def _stream(self, key: tuple[object, ...]) -> MaskedStream:
        """Return the stream with this key; only those used last are kept."""
        stream = self._streams.setdefault(key, MaskedStream(self._secrets))
        self._streams.move_to_end(key)
        if len(self._streams) > MAX_STREAMS:
            self._streams.popitem(last=False)
        return stream
