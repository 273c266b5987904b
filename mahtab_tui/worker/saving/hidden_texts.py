"""Texts that were typed hidden, such as passwords, in the bytes of what is saved."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from ..stdlib import late_import
from .progress import ProgressCounter

HIDDEN_REASON = "it contains text that was typed hidden"

_MIN_INNER_CHARS = 4
"""A text of at least this many characters is found inside others; a shorter one only as a whole
string."""
_MIN_ARRAY_BYTES = 8
"""Bytes of a form that does not occur by chance in the memory of arrays."""
_ENCODINGS = ("utf-8", "utf-16-le", "utf-32-le")
"""The encodings of Python's texts, and of arrays of texts."""
_REDACTED_FIELDS = {"name": "(a name that was typed hidden)", "reason": HIDDEN_REASON}
"""What replaces a field; others become empty."""

# Opcodes of a pickle that are followed by a length of one byte and the data.
_SHORT_TEXT_OPCODE = b"\x8c"
_SHORT_BYTES_OPCODE = b"C"


class HiddenTexts:
    """The forms of some texts as bytes."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Compute the forms.

        Args:
            texts: Lines as they were typed; they also count without blanks around them.
        """
        variants = {variant for text in texts for variant in (text, text.strip()) if variant}
        self._short_texts = {text for text in variants if len(text) < _MIN_INNER_CHARS}
        long_texts = variants - self._short_texts
        inner_forms = {form for text in long_texts for form in _encoded_forms(text)}
        whole_forms = {form for text in self._short_texts for form in _whole_string_forms(text)}
        quoted_forms = {_encode(repr(text)) for text in self._short_texts}
        self._forms_in_pickles = inner_forms | whole_forms
        self._forms_in_arrays = {form for form in inner_forms if len(form) >= _MIN_ARRAY_BYTES}
        self._forms_in_rows = inner_forms | quoted_forms

    def found_in(self, stream: bytearray, blocks: Iterable[object], pulse: ProgressCounter) -> bool:
        """Return whether saved variables contain one of the texts.

        Args:
            stream: Their pickle.
            blocks: The memory of their arrays.
            pulse: Counts what was searched.
        """
        if any(form in stream for form in self._forms_in_pickles):
            return True
        if not self._forms_in_arrays:
            return False
        return any(self._is_in_memory(block, pulse) for block in blocks)

    def _is_in_memory(self, block: object, pulse: ProgressCounter) -> bool:
        """Search memory piece by piece, overlapping with the end of the piece before."""
        overlap_bytes = max(map(len, self._forms_in_arrays)) - 1
        end_before = b""
        for piece in pulse.track([block]):
            data = end_before + piece
            if any(form in data for form in self._forms_in_arrays):
                return True
            end_before = data[-overlap_bytes:]
        return False

    def redact_row(self, row: dict[str, object]) -> dict[str, object]:
        """Replace each field of a row that contains one of the texts: code may also use them as names
        of variables and classes, and an error may quote them."""
        return {
            field: _REDACTED_FIELDS.get(field, "") if self._is_in_field(value) else value
            for field, value in row.items()
        }

    def _is_in_field(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        data = _encode(value)
        return value in self._short_texts or any(form in data for form in self._forms_in_rows)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _whole_string_forms(text: str) -> Iterator[bytes]:
    """Yield how a pickle contains a short text that is a whole string."""
    data = _encode(text)
    sized_data = bytes([len(data)]) + data
    yield _SHORT_TEXT_OPCODE + sized_data
    yield _SHORT_BYTES_OPCODE + sized_data


def _encoded_forms(text: str) -> Iterator[bytes]:
    """Yield the bytes by which a text, or a common encoding of it, is contained in others."""
    data = _encode(text)
    written_forms = {
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        late_import("urllib.parse").quote(data),
    }
    for written_form in written_forms:
        for encoding in _ENCODINGS:
            yield written_form.encode(encoding, "surrogatepass")
    if len(data) >= _MIN_ARRAY_BYTES:
        yield data.hex().encode()
        yield from _base64_forms(data)


def _base64_forms(data: bytes) -> Iterator[bytes]:
    """Yield the middle of data in Base64, which does not depend on the text around it, for each of its
    three positions in that text."""
    encode = late_import("base64").b64encode
    for offset in range(3):
        encoded = encode(b"\0" * offset + data)
        first_char = (4 * offset + 2) // 3
        end_char = 4 * ((offset + len(data)) // 3)
        yield encoded[first_char:end_char]
