"""Sentences of this program in the output of a cell, which exports leave out."""

from __future__ import annotations

import re

_WIDGETS = "ipywidgets draws in a browser: here, widgets are shown as text."
_NO_EFFECT = " does nothing here: "
_FAINT_LINE = re.compile(r"^\x1b\[2m([^\x1b\n]*)\x1b\[22m\n", re.MULTILINE)


def note_widgets() -> None:
    """Say how widgets are shown."""
    _print_faint(_WIDGETS)


def note_magic_without_effect(line: str, reason: str) -> None:
    """Say why a magic has no effect.

    Args:
        line: The magic as it was entered.
        reason: The end of the sentence, without a full stop.
    """
    _print_faint(f"{line}{_NO_EFFECT}{reason}.")


def _print_faint(sentence: str) -> None:
    print(f"\x1b[2m{sentence}\x1b[22m")


def remove_notes(output: str) -> str:
    """Return the output of a cell without these sentences."""
    return _FAINT_LINE.sub(_keep_others, output)


def _keep_others(line: re.Match[str]) -> str:
    sentence = line[1]
    is_note = sentence == _WIDGETS or (sentence.startswith("%") and _NO_EFFECT in sentence)
    return "" if is_note else line[0]
