"""Finds texts of the user's private variables in what is told to models."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable

from mahtab_tui.bus.secret_forms import SecretSpan

_SHORT_TEXT = 8
"""Shorter texts are not looked for: they would be found everywhere."""
_LONG = 16
"""Length of the pieces by which a part of a long text is found: any part of it of 31 characters
holds a whole one."""
_WHOLE = 2 * _LONG
"""A shorter text is found only as a whole."""


class PrivateTexts:
    """The texts known so far. Any thread may call it. Searching takes time proportional to the
    searched text."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._whole: dict[str, dict[int, set[str]]] = {}
        """Lines that are found as a whole, by their first characters and their lengths."""
        self._pieces: dict[str, list[tuple[str, int]]] = {}
        """Pieces of longer lines, to the line and the place in it."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def replace(self, texts: Iterable[str]) -> None:
        """Find these texts from now on, and no others."""
        with self._lock:
            self._known, self._whole, self._pieces = set(), {}, {}
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        """Find these texts, too: line by line, as they are and as code and JSON write them."""
        for text in texts:
            for line in text.splitlines():
                for form in {
                    line.strip(),
                    repr(line.strip())[1:-1],
                    json.dumps(line.strip())[1:-1],
                }:
                    if len(form) >= _SHORT_TEXT:
                        self._add(form)

    def _add(self, line: str) -> None:
        with self._lock:
            if line in self._known:
                return
            self._known.add(line)
            if len(line) < _WHOLE:
                self._whole.setdefault(line[:_SHORT_TEXT], {}).setdefault(len(line), set()).add(
                    line
                )
                return
            for place in range(0, len(line) - _LONG + 1, _LONG):
                held = self._pieces.setdefault(line[place : place + _LONG], [])
                if len(held) < 8:  # a line of dashes has one piece many times
                    held.append((line, place))

    def spans(self, text: str, *, words: bool = True) -> list[SecretSpan]:
        """Return where known texts stand in a text, in order, without overlaps."""
        if not self._known:
            return []
        found: list[SecretSpan] = []
        place = 0
        while place <= len(text) - _SHORT_TEXT:
            span = self._at(text, place)
            if span is None:
                place += 1
                continue
            while found and span.start <= found[-1].end:
                span = SecretSpan(min(span.start, found.pop().start), span.end)
            found.append(span)
            place = span.end
        return found

    def _at(self, text: str, place: int) -> SecretSpan | None:
        """Return the longest span of known text that begins here, or that has a whole piece
        here."""
        whole = self._whole.get(text[place : place + _SHORT_TEXT], {})
        ends = [
            place + length
            for length, lines in whole.items()
            if text[place : place + length] in lines
        ]
        starts = [place]
        for line, offset in self._pieces.get(text[place : place + _LONG], ()):
            before = 0
            while (
                before < min(offset, place)
                and line[offset - before - 1] == text[place - before - 1]
            ):
                before += 1
            after = _LONG
            while (
                offset + after < len(line)
                and text[place + after : place + after + 1] == line[offset + after]
            ):
                after += 1
            starts.append(place - before)
            ends.append(place + after)
        return SecretSpan(min(starts), max(ends)) if ends else None
