"""Masks secrets in texts that arrive in pieces, and in all records of a log."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

from mahtab_tui.bus.masking import Secrets, mask_slice
from mahtab_tui.bus.records import Record, Stream, get_record
from mahtab_tui.bus.secret_matching import PartialSecret, SecretSpan

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
        partial = matcher.find_partial(text)
        display_end = self._find_display_end(text, spans, partial)

        piece = mask_slice(text, spans, self._displayed_chars, display_end)
        self._tail = text[partial.start :]
        self._displayed_chars = display_end - partial.start
        return piece

    def _find_display_end(
        self, text: str, spans: Sequence[SecretSpan], partial: PartialSecret
    ) -> int:
        """Return where the part of a text ends that may be displayed.

        Args:
            text: The tail and the new piece.
            spans: The whole secrets in it.
            partial: The possible start of a secret at its end.
        """
        # Of most texts, a character or two at the end could begin a secret.
        if len(text) - partial.start <= partial.displayable_chars:
            return len(text)
        # What was displayed cannot be taken back.
        display_end = max(partial.start, self._displayed_chars)
        # The end of a secret may be the start of another one. It is masked with the first.
        if spans and partial.start > spans[-1].start:
            display_end = max(display_end, spans[-1].end)
        return display_end

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
        """By `Stream.stream`, the one used last at the end."""

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
