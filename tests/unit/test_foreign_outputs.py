"""Outputs that IPython writes in another form than this program."""

from __future__ import annotations

import re

import pytest

from mahtab_tui.session.checking.foreign_outputs import shared_form


def _ipython_form(pattern: re.Pattern[str] | re.Pattern[bytes]) -> str:
    """Return a pattern as IPython 9 shows it."""
    text = repr(pattern.pattern).replace("\\\\", "\\")
    prefix, text = ("rb", text[1:]) if text.startswith("b") else ("r", text)
    names = ["IGNORECASE"] if pattern.flags & re.I else []
    names += ["UNICODE"] if pattern.flags & re.U else []
    flags = "|".join(f"re.{name}" for name in names)
    return f"re.compile({prefix}{text}{', ' if flags else ''}{flags})"


@pytest.mark.parametrize("flags", [0, re.I])
@pytest.mark.parametrize(
    "text",
    [
        r"\d+\n",
        "two\nlines\t",
        "it's",
        "both ' and \"",
        r"it ends in \\",
        r"\\",
        r"'\\",
        *("a" * length for length in (196, 197, 198, 199, 200, 201, 900)),
        *(r"\d" * count for count in (48, 49, 50, 65, 66, 67, 98, 99, 100, 101, 400)),
        r"\\" * 90,
        b"\\d+",
        b"a" * 300,
    ],
)
def test_a_pattern_is_the_same_as_in_ipython(text: str | bytes, flags: int) -> None:
    pattern = re.compile(text, flags)
    for line in ("{}", "[{}, 1]"):
        own_form = shared_form(line.format(repr(pattern)), "")
        assert own_form == shared_form(line.format(_ipython_form(pattern)), "")


@pytest.mark.parametrize(
    ("text", "other"),
    [("a", "b"), (r"\\", r"\\\\"), ("a" * 150, "a" * 151), ("b" + "a" * 900, "c" + "a" * 900)],
)
def test_other_patterns_are_different(text: str, other: str) -> None:
    pattern_form = shared_form(repr(re.compile(text)), "")
    assert pattern_form != shared_form(_ipython_form(re.compile(other)), "")
    assert pattern_form != shared_form(repr(re.compile(text, re.I)), "")
