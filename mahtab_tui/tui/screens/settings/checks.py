"""Checks that a setting's type does not cover: whether its model, theme, command or interpreter
exists."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import find_interpreter
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import full_name, split_spec
from mahtab_tui.settings.model import SettingsError


def check(key: str, text: str, provider: str | None = None) -> None:
    """Check a value. Raises `SettingsError` if it would be refused or ignored. provider: for a
    model that is named without one."""
    try:
        if is_model(key):
            split_spec(full_name(text, provider))
        elif key == "python":
            find_interpreter(text)
    except (ModelError, KernelError) as error:
        raise SettingsError(f"{key}: {error}") from None
    if key == "theme":
        _known(key, text, themes(), "theme")
    elif key == "keymap":
        for pair in text.split():
            _known(key, pair.partition("=")[0], _commands(), "command")
    elif key.startswith("keymap."):
        _known("keymap", key.partition(".")[2], _commands(), "command")


def is_model(key: str) -> bool:
    """Whether the value of a setting is the name of a model that answers."""
    return key == "model" or (key.endswith("_model") and key != "embedding_model")


def themes() -> list[str]:
    """List the names of all themes, our own first."""
    from textual.theme import BUILTIN_THEMES

    from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY

    return [MAHTAB.name, MAHTAB_DAY.name, *BUILTIN_THEMES]


def _commands() -> list[str]:
    from mahtab_tui.tui.commands.on_screens import PANE_COMMANDS
    from mahtab_tui.tui.commands.registry import COMMANDS

    return [*(command.id for command in COMMANDS), *(command.id for command in PANE_COMMANDS)]


def _known(key: str, name: str, names: Collection[str], what: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names)}."
        raise SettingsError(f"{key}: there is no {what} {name!r}. {hint}")
