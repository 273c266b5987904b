"""The one place where text from outside is made fit for a screen.

Trust model: whatever code printed, a model said or a file contains is hostile. What could drive a terminal is removed here; SGR colour is
parsed into styles first where styles are wanted. The screen's own library passes escape sequences on, so nothing may go around this.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

# Strings (OSC, DCS, SOS, PM, APC) to their end, or to the end of the text; CSI; other escapes; the same as C1 characters.
_ESCAPES = r"""
    (?:\x1b[\]P^_X]|[\x9d\x90\x9e\x9f\x98]) [^\x07\x1b\x9c\n]* (?:\x07|\x1b\\|\x9c)?
  | (?:\x1b\[|\x9b) [0-?]* [ -/]* [@-~]?
  | \x1b [ -/]* [0-~]?
"""
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNFIT = re.compile(f"{_ESCAPES} | [{_CONTROLS}{_BIDI}]", re.VERBOSE)
_SUSPECT = re.compile(f"[\x1b{_CONTROLS}{_BIDI}\ud800-\udfff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_SGR = re.compile(r"(?:\x1b\[|\x9b)([0-9;:]*)m")


def plain(text: str) -> str:
    """The text without anything that could drive a terminal; lone surrogates become U+FFFD."""
    if _SUSPECT.search(text) is None:
        return text
    return _SURROGATES.sub("\ufffd", _UNFIT.sub("", text))


def styled(text: str) -> Text:
    """The text with its SGR colours as styles, and nothing else that could drive a terminal."""
    from rich.text import Text

    if "\x1b" not in text and "\x9b" not in text:
        return Text(plain(text))
    result, state, start = Text(), SgrState(), 0
    for matched in _SGR.finditer(text):
        result.append(plain(text[start : matched.start()]), state.style)
        state.feed(matched[1])
        start = matched.end()
    result.append(plain(text[start:]), state.style)
    return result


_FLAGS = {
    1: "bold",
    2: "dim",
    3: "italic",
    4: "underline",
    7: "reverse",
    9: "strike",
    22: "not bold not dim",
    23: "not italic",
    24: "not underline",
    27: "not reverse",
    29: "not strike",
}
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


class SgrState:
    """The style that a run of SGR sequences has come to, as words that rich understands."""

    def __init__(self) -> None:
        self._flags: set[str] = set()
        self._colours: dict[str, str] = {}

    @property
    def style(self) -> str:
        """A style definition, empty for the default."""
        words = sorted(self._flags)
        if "color" in self._colours:
            words.append(self._colours["color"])
        if "bgcolor" in self._colours:
            words.append(f"on {self._colours['bgcolor']}")
        return " ".join(words)

    def feed(self, parameters: str) -> None:
        """Apply the parameters of one sequence; what is not known is passed over."""
        codes = [int(word[:6]) if word else 0 for word in re.split("[;:]", parameters)]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self._flags.clear()
                self._colours.clear()
            elif code in _FLAGS:
                self._flag(_FLAGS[code])
            elif code in (38, 48):
                self._extended("color" if code == 38 else "bgcolor", codes)
            elif code in (39, 49):
                self._colours.pop("color" if code == 39 else "bgcolor", None)
            else:
                self._named(code)

    def _flag(self, words: str) -> None:
        if words.startswith("not "):
            self._flags -= set(words.replace("not ", "").split())
        else:
            self._flags.add(words)

    def _extended(self, ground: str, codes: list[int]) -> None:
        kind = codes.pop(0) if codes else -1
        if kind == 5 and codes:
            self._colours[ground] = f"color({min(codes.pop(0), 255)})"
        elif kind == 2 and len(codes) >= 3:
            red, green, blue = (min(codes.pop(0), 255) for _ in range(3))
            self._colours[ground] = f"rgb({red},{green},{blue})"

    def _named(self, code: int) -> None:
        for first, ground, prefix in ((30, "color", ""), (40, "bgcolor", ""), (90, "color", "bright_"), (100, "bgcolor", "bright_")):
            if first <= code < first + 8:
                self._colours[ground] = prefix + _NAMES[code - first]
