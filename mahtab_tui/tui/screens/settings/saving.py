"""One change of a setting: checked, done in this session, written to a file; the slow parts on threads."""

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


class Saving:
    """Each method says what came of it, in a sentence. Raises `SettingsError`, `ModelError`; after the latter nothing was changed."""

    def __init__(self, settings: Settings, key: str, file: Path, change: Callable[[str, Any], bool]) -> None:
        """change: sets a value for this session, on the main thread; whether that holds at once."""
        self._settings = settings
        self._key = key
        self._file = file
        self._change = change

    async def toggle(self) -> str:
        """Turn a setting over that is on or off."""
        return await self.set("false" if getattr(self._settings, self._key) else "true")

    async def set(self, text: str) -> str:
        """Give it a value, as a person types it."""
        value = await asyncio.to_thread(self._checked, text)
        table = self._key.partition(".")[0]
        before = getattr(self._settings, table)
        at_once = self._apply(value)
        new = written(self._key, text)
        # Entries are added to those that the file has.
        rows = {f"{self._key}.{name}": each for name, each in new.items()} if isinstance(new, dict) else {self._key: new}
        try:
            await asyncio.to_thread(self._write, rows)
        except SettingsError as error:
            if at_once:
                raise SettingsError(f"This session follows, but it is not kept. {error}") from None
            self._change(table, before)
            raise
        return f"Written. {_when(at_once)}{await asyncio.to_thread(self._winner, next(iter(rows)))}"

    async def unset(self) -> str:
        """Take it out of the file; what the other sources say holds then."""
        if not await asyncio.to_thread(unset, self._file, self._key):
            raise SettingsError(f"{self._file} does not set {self._key}.")
        table = self._key.partition(".")[0]
        try:
            sources = await asyncio.to_thread(self._settings.anew)
            at_once = self._change(table, getattr(sources, table))
        except (SettingsError, ModelError) as error:
            raise SettingsError(f"{self._key} is no longer in the file, but this session goes on as before. {error}") from None
        return f"{self._key} is no longer in the file. {_when(at_once)}"

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
        """Whatever else the value will come from at the next start, as a sentence after another."""
        try:
            place = self._settings.place_of(key)
        except SettingsError as error:
            return f" But {error}"
        return "" if place.file == self._file else f" But {place.text} wins over it from the next start."


def _when(at_once: bool) -> str:
    return "It holds at once." if at_once else "It holds from the next start."
