"""Queries the terminal for its graphics support, and removes its replies from the typed input."""

from __future__ import annotations

import re
from typing import Literal

Protocol = Literal["kitty", "sixel"]

QUESTIONS = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[16t\x1b[c"
"""Queries for Kitty graphics, the size of a cell, and device attributes, which every terminal
answers."""
SIXEL_QUESTIONS = "\x1b[?1;1;0S\x1b[?2;1;0S\x1b[c"
"""Queries for the number of Sixel colours and the largest Sixel picture, sent only to terminals
with Sixel."""

KITTY_CLEARED = "\x1b_Ga=d,d=A,q=2\x1b\\"

_ANSWER = re.compile(
    r"\x1b_G(?P<kitty>[^\x1b]{0,256})\x1b\\|\x1b\[\?(?P<attributes>[\d;]{0,64})c|\x1b\[6;(?P<height>\d{1,4});(?P<width>\d{1,4})t"
    r"|\x1b\[\?1;0;(?P<colours>\d{1,9})S|\x1b\[\?2;0;(?P<widest>\d{1,9});(?P<highest>\d{1,9})S|\x1b\[\?[12];[1-3][\d;]{0,24}S"
)
_INCOMPLETE = re.compile(r"\x1b(_(G[^\x1b]{0,256}\x1b?)?|\[(\?[\d;]{0,64}|6[\d;]{0,10})?)?\Z")
_POSSIBLE_KEY = 2
"""Maximum characters of a pending reply that may be a key instead."""


class TerminalAnswers:
    """The terminal's replies. Used by the thread that reads the keys."""

    def __init__(self) -> None:
        self.protocol: Protocol | None = None
        self.cell: tuple[int, int] | None = None
        """Width and height in pixels; None if unknown."""
        self.colours = 16
        """Maximum number of Sixel colours; the default is that of the first Sixel terminals."""
        self.largest = (800, 480)
        """Maximum size of a Sixel picture, in pixels."""
        self.awaited = False
        self._pending = ""
        self._limits_asked = False

    def ask(self) -> str:
        self.awaited = True
        return QUESTIONS

    def filter_input(self, typed: str) -> tuple[str, str]:
        """Remove replies from typed input; returns the rest, and further queries to send."""
        if not self.awaited:
            return typed, ""
        typed, self._pending = self._pending + typed, ""
        rest, start, question = [], 0, ""
        for answer in _ANSWER.finditer(typed):
            rest.append(typed[start : answer.start()])
            start = answer.end()
            question += self._read(answer)
        return self._split_incomplete("".join((*rest, typed[start:]))), question

    def _split_incomplete(self, typed: str) -> str:
        if self.awaited and (begun := _INCOMPLETE.search(typed)):
            typed, self._pending = typed[: begun.start()], begun[0]
        return typed

    def flush_pending(self) -> str:
        """Return the held-back text if it may be a key, because nothing followed for a while."""
        if len(self._pending) > _POSSIBLE_KEY:
            return ""
        pending, self._pending = self._pending, ""
        return pending

    def _read(self, answer: re.Match[str]) -> str:
        if (reply := answer["kitty"]) is not None and reply.endswith(";OK"):
            self.protocol = "kitty"
        elif answer["height"] and int(answer["height"]) and int(answer["width"]):
            self.cell = int(answer["width"]), int(answer["height"])
        elif answer["colours"]:
            self.colours = max(2, min(256, int(answer["colours"])))
        elif answer["widest"]:
            self.largest = int(answer["widest"]), int(answer["highest"])
        elif (attributes := answer["attributes"]) is not None:
            if "4" in attributes.split(";")[1:] and not self._limits_asked:
                self.protocol = self.protocol or "sixel"
                self._limits_asked = True
                return SIXEL_QUESTIONS
            self.awaited = False
        return ""
