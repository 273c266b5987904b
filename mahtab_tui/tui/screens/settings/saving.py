"""One change of a setting: checked, done in this session, written to a file; the slow parts on threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mahtab_tui.configuration.files import set_value, unset
from mahtab_tui.configuration.values import is_table, validated, written
from mahtab_tui.setting_sources import Place
from mahtab_tui.settings import Settings, SettingsError
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
        try:
            place = await asyncio.to_thread(self._write, text)
        except SettingsError as error:
            if at_once:
                raise SettingsError(f"This session follows, but it is not kept. {error}") from None
            self._change(table, before)
            raise
        if place.file != self._file:
            return f"Written. {_when(at_once)} But {place.text} wins over it from the next start."
        return f"Written. {_when(at_once)}"

    async def unset(self) -> str:
        """Take it out of the file; what the other sources say holds then."""
        if not await asyncio.to_thread(unset, self._file, self._key):
            raise SettingsError(f"{self._file} does not set {self._key}.")
        sources = await asyncio.to_thread(self._settings.anew)
        table = self._key.partition(".")[0]
        at_once = self._change(table, getattr(sources, table))
        return f"{self._key} is no longer in the file. {_when(at_once)}"

    def _checked(self, text: str) -> Any:
        new = written(self._key, text)
        check(self._key, text)
        return validated(self._key, new)

    def _apply(self, value: Any) -> bool:
        table, dot, name = self._key.partition(".")
        present = getattr(self._settings, table)
        if dot or is_table(table):
            value = {**present, name: value} if dot else {**present, **value}
        return self._change(table, value)

    def _write(self, text: str) -> Place:
        """Write it; where the value will come from at the next start."""
        new = written(self._key, text)
        if isinstance(new, dict):  # entries are added to those that the file has
            for name, value in new.items():
                set_value(self._file, f"{self._key}.{name}", value)
            return self._settings.place_of(f"{self._key}.{next(iter(new))}")
        set_value(self._file, self._key, new)
        return self._settings.place_of(self._key)


def _when(at_once: bool) -> str:
    return "It holds at once." if at_once else "It holds from the next start."
