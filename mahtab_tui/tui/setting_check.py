"""Checks values of settings that only the screen and the models know: themes, commands, models."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from textual.theme import BUILTIN_THEMES

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import find_interpreter
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.names import full_name, split_spec
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.tui.theme import OUR_THEMES


def check_setting(
    key: str, text: str, command_ids: Collection[str], provider: str | None = None
) -> None:
    """Raise `SettingsError` if a value would be rejected or ignored.

    Args:
        key: The setting.
        text: Its value as typed.
        command_ids: The commands that a key map may name.
        provider: The provider of a model that is named without one.
    """
    try:
        if is_model(key):
            split_spec(full_name(text, provider))
        elif key == "python":
            find_interpreter(text)
    except (ModelError, KernelError) as error:
        raise SettingsError(f"{key}: {error}") from None
    if key == "theme":
        _check_name(key, text, theme_names(), "theme")
    elif key == "keymap":
        for binding in text.split():
            command, _, _ = binding.partition("=")
            _check_name(key, command, command_ids, "command")
    elif key.startswith("keymap."):
        command = key.removeprefix("keymap.")
        _check_name("keymap", command, command_ids, "command")


def is_model(key: str) -> bool:
    """Return whether the value of a setting is the name of a model."""
    return key == "model" or (key.endswith("_model") and key != "embedding_model")


def theme_names() -> list[str]:
    """Return the names of all themes, ours first."""
    return [*(theme.name for theme in OUR_THEMES), *BUILTIN_THEMES]


def _check_name(key: str, name: str, names: Collection[str], noun: str) -> None:
    """Raise `SettingsError` if there is no such name.

    Args:
        noun: What it names, for the sentence.
    """
    if name in names:
        return
    similar_names = difflib.get_close_matches(name, names, n=1)
    if similar_names:
        hint = f"Did you mean {similar_names[0]}?"
    else:
        hint = f"There are: {', '.join(names)}."
    raise SettingsError(f"{key}: there is no {noun} {name!r}. {hint}")
