"""Finds texts that the user typed hidden (`getpass`) in what is about to be saved, where they would
lie in clear."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ..stdlib import late_import
from .pulse import Pulse

REASON = "it contains text that was typed hidden"

_WORD = 4
"""Characters of a text from which on it is found inside others; a shorter one is found as a whole
string."""
_LONG = 8
"""Bytes of a form that does not occur by chance in the memory of arrays."""


class HiddenTexts:
    """The forms of some texts as bytes. Finding them takes time proportional to the data and the
    number of texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        known = {each for text in texts for each in (text, text.strip()) if each}
        short = {text for text in known if len(text) < _WORD}
        encoded = {form for text in known - short for form in _encoded(text)}
        self._in_pickles = encoded | {form for text in short for form in _whole_strings(text)}
        self._in_arrays = {form for form in encoded if len(form) >= _LONG}
        self._in_rows = encoded | {repr(text).encode("utf-8", "surrogatepass") for text in short}

    def are_in(self, stream: bytearray, blocks: Iterable[Any], pulse: Pulse) -> bool:
        """Return whether a pickle, or the memory of its arrays, holds one of the texts."""
        if any(form in stream for form in self._in_pickles):
            return True
        return bool(self._in_arrays) and any(self._is_in(block, pulse) for block in blocks)

    def _is_in(self, block: Any, pulse: Pulse) -> bool:
        """Search memory a piece at a time, with the end of the piece before."""
        overlap = max(map(len, self._in_arrays)) - 1
        end = b""
        for piece in pulse.along([block]):
            data = end + piece
            if any(form in data for form in self._in_arrays):
                return True
            end = data[-overlap:]
        return False

    def without(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row of the index without its summary if that holds one of the texts."""
        data = str(row.get("summary", "")).encode("utf-8", "surrogatepass")
        return {**row, "summary": ""} if any(form in data for form in self._in_rows) else row


def _whole_strings(text: str) -> Iterator[bytes]:
    """Yield a short text as a pickle writes a string and bytes that are nothing else."""
    data = text.encode("utf-8", "surrogatepass")
    yield b"\x8c" + bytes([len(data)]) + data
    yield b"C" + bytes([len(data)]) + data


def _encoded(text: str) -> Iterator[bytes]:
    """Yield the forms in which a text of some length lies in memory and in other texts."""
    quote = late_import("urllib.parse").quote
    written = {
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        quote(text.encode("utf-8", "surrogatepass")),
    }
    for form in written:
        for encoding in ("utf-8", "utf-16-le", "utf-32-le"):
            yield form.encode(encoding, "surrogatepass")
    data = text.encode("utf-8", "surrogatepass")
    if len(data) >= _LONG:
        yield data.hex().encode()
        encode = late_import("base64").b64encode
        for before in range(3):  # the middle, which does not depend on what stands around it
            coded = encode(b"\0" * before + data)
            yield coded[(4 * before + 2) // 3 : 4 * ((before + len(data)) // 3)]
