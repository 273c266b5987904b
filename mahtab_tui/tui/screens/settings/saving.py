"""Changes one setting: checks the value, applies it to this session, writes it to a file. The slow
parts run on threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mahtab_tui.llm.base import ModelError
from mahtab_tui.settings.model import Settings, SettingsError
from mahtab_tui.settings.values import is_table, validated, written
from mahtab_tui.settings.writing import set_value, unset
from mahtab_tui.tui.screens.settings.checks import check


class SettingWriter:
    """Each method returns a sentence that reports the outcome. Raises `SettingsError`, or
    `ModelError`, which changes nothing."""

    def __init__(
        self, settings: Settings, key: str, file: Path, change: Callable[[str, Any], bool]
    ) -> None:
        """change: sets a value for this session, on the main thread, and returns whether it takes
        effect at once."""
        self._settings = settings
        self._key = key
        self._file = file
        self._change = change

    async def toggle(self) -> str:
        return await self.set("false" if getattr(self._settings, self._key) else "true")

    async def set(self, text: str) -> str:
        """Set the value that the user typed."""
        value = await asyncio.to_thread(self._checked, text)
        table = self._key.partition(".")[0]
        before = getattr(self._settings, table)
        at_once = self._apply(value)
        new = written(self._key, text)
        # New entries of a table are added to those in the file.
        rows = (
            {f"{self._key}.{name}": each for name, each in new.items()}
            if isinstance(new, dict)
            else {self._key: new}
        )
        try:
            await asyncio.to_thread(self._write, rows)
        except SettingsError as error:
            if at_once:
                raise SettingsError(
                    f"Changed for this session only; it was not saved. {error}"
                ) from None
            self._change(table, before)
            raise
        return f"Saved. {_when(at_once)}{await asyncio.to_thread(self._winner, next(iter(rows)))}"

    async def unset(self) -> str:
        """Remove it from the file, so that the other sources decide."""
        if not await asyncio.to_thread(unset, self._file, self._key):
            raise SettingsError(f"{self._file} does not set {self._key}.")
        table = self._key.partition(".")[0]
        try:
            sources = await asyncio.to_thread(self._settings.reloaded)
            at_once = self._change(table, getattr(sources, table))
        except (SettingsError, ModelError) as error:
            raise SettingsError(
                f"Removed {self._key} from the file, but this session keeps its value. {error}"
            ) from None
        return f"Removed {self._key} from the file. {_when(at_once)}"

    def _checked(self, text: str) -> Any:
        new = written(self._key, text)
        check(self._key, text, self._settings.provider)
        return validated(self._key, new)

    def _apply(self, value: Any) -> bool:
        table, dot, name = self._key.partition(".")
        present = getattr(self._settings, table)
        if dot or is_table(table):
            value = {**present, name: value} if dot else {**present, **value}
        return self._change(table, value)

    def _write(self, rows: Mapping[str, Any]) -> None:
        for key, value in rows.items():
            set_value(self._file, key, value)

    def _winner(self, key: str) -> str:
        """A sentence that names the source which overrides the file at the next start; empty if
        none does."""
        try:
            place = self._settings.place_of(key)
        except SettingsError as error:
            return f" But {error}"
        return (
            ""
            if place.file == self._file
            else f" But {place.text} overrides it from the next start."
        )


def _when(at_once: bool) -> str:
    return "It takes effect at once." if at_once else "It takes effect at the next start."
