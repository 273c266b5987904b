"""The screen of all settings: their values, where each comes from, and changing them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.notifications import SeverityLevel

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.base import ModelError
from mahtab_tui.settings.model import Settings, SettingsError, config_files
from mahtab_tui.settings.sources import ValueOrigin, project_folder
from mahtab_tui.settings.values import NOT_SET, SettingEntry, choices, entries, is_secret
from mahtab_tui.tui.screens.dialog import ask
from mahtab_tui.tui.screens.listing import ChooseOne, Listing, ListScreen, short_path
from mahtab_tui.tui.screens.models import ModelPicker
from mahtab_tui.tui.screens.settings.checks import is_model, themes
from mahtab_tui.tui.screens.settings.edit import EditSetting
from mahtab_tui.tui.screens.settings.groups import group_of, order_of
from mahtab_tui.tui.screens.settings.saving import SettingWriter
from mahtab_tui.tui.textual_fixes.removable import is_leaving

_KEY, _VALUE, _PLACE = 20, 44, 16
"""Columns of the key, of the value at most, and of the source."""


class SettingsScreen(ListScreen[None, SettingEntry]):
    """Enter changes the setting at the cursor; Escape leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("tab", "other_file", "Other file"),
        ("ctrl+r", "unset", "Remove from the file"),
    ]

    def __init__(
        self,
        settings: Settings,
        present: Callable[[], dict[str, str]],
        change: Callable[[str, Any], bool],
        make_picker: Callable[[str], ModelPicker],
        notify: Callable[[str, SeverityLevel], None],
    ) -> None:
        """present: the values in effect of settings that are not set, by key. change: sets a value
        for this session and returns whether it takes effect at once.

        make_picker: makes a screen that replaces a model. notify: reports a change that ends after
        the user has left the screen. Raises `SettingsError` if the project's folder was deleted.
        """
        super().__init__()
        self.listing = Listing(
            self, "Settings", "Enter changes it · Tab other file · Ctrl+R unsets it · Esc leaves"
        )
        self._settings = settings
        self._present = present
        self._change = change
        self._make_picker = make_picker
        self._notify = notify
        self._entries: list[SettingEntry] = []
        self._project = project_folder()
        self._files = config_files(self._project)
        self._file = self._files[1]
        self._saving = asyncio.Lock()

    def on_mount(self) -> None:
        self.listing.count(self._target())
        self.app.run_worker(self._load())

    # The rows

    async def _load(self) -> None:
        """Read all sources again, on a thread."""
        try:
            found = await asyncio.to_thread(entries, self._settings)
        except SettingsError as error:
            found = [
                SettingEntry(key, "", ValueOrigin("not known"), field.description or "")
                for key, field in Settings.model_fields.items()
            ]
            if not is_leaving(self):
                self.listing.say(str(error))
        present = self._present()
        self._entries = []
        for entry, following in zip(found, [*found[1:], None], strict=True):
            self._entries.append(
                entry._replace(value=present[entry.key])
                if entry.value == NOT_SET and entry.key in present
                else entry
            )
            table, dot, _ = entry.key.partition(".")
            if dot and (following is None or not following.key.startswith(f"{table}.")):
                self._entries.append(
                    SettingEntry(table, "", ValueOrigin("name=value adds"), entry.description)
                )
        self._entries.sort(key=lambda entry: order_of(entry.key))
        if not is_leaving(self):
            self.listing.fill()

    def heading(self, row: SettingEntry) -> str:
        return "" if self.listing.typed.strip() else group_of(row.key)

    def rows(self, typed: str) -> Sequence[SettingEntry]:
        """The settings whose key begins with the text, then those whose key contains it, then the
        others that match."""
        typed = typed.lower()
        words = typed.split()
        found = [
            entry
            for entry in self._entries
            if all(
                word in f"{entry.key} {entry.value} {entry.description}".lower() for word in words
            )
        ]
        return (
            sorted(
                found, key=lambda entry: (not entry.key.startswith(typed), typed not in entry.key)
            )
            if words
            else found
        )

    def line(self, row: SettingEntry, width: int) -> Content:
        room = min(max(width - _KEY - _PLACE - 2, 8), _VALUE)
        value = Content(plain(row.value)).truncate(room, ellipsis=True, pad=True)
        style = "$muted" if row.value == NOT_SET else "$moon" if row.place.text != "default" else ""
        return Content.assemble(
            f"{row.key:<{_KEY}} ", value.stylize(style), " ", (self._short(row.place), "$muted")
        )

    def describe(self, row: SettingEntry | None) -> Content:
        if row is None:
            return Content("No setting matches." if self._entries else "")
        allowed = (
            f" ({', '.join(choices(row.key))})" if "." not in row.key and choices(row.key) else ""
        )
        return Content.assemble(
            f"{row.description}{allowed}.\n",
            (plain(f"From: {short_path(row.place.text, self._project)}"), "$muted"),
        )

    def _short(self, place: ValueOrigin) -> str:
        if place.file is None:
            return place.text
        return "your file" if place.file == self._files[1] else "the project's"

    def _target(self) -> str:
        return f"written to {short_path(str(self._file), self._project)}"

    # Changing a setting

    def action_other_file(self) -> None:
        self._file = self._files[self._files.index(self._file) - 1]
        self.listing.count(self._target())

    def action_unset(self) -> None:
        if (row := self.listing.chosen) is not None:
            self._begin(self._writer(row.key).unset())

    def take(self) -> None:
        if (row := self.listing.chosen) is None:
            return
        key = row.key
        if choices(key.partition(".")[0]) == ("true", "false"):
            self._begin(self._writer(key).toggle())
            return
        offered = themes() if key == "theme" else choices(key.partition(".")[0])
        dialog: ChooseOne | ModelPicker | EditSetting
        if offered:
            dialog = ChooseOne(key, offered, row.value)
        elif is_model(key):
            dialog = self._make_picker(row.value if row.value != NOT_SET else "")
        else:
            secret = is_secret(key)
            dialog = EditSetting(
                row, "" if secret or row.value == NOT_SET else row.value, secret=secret
            )

        def entered(text: str) -> None:
            writer = self._writer(key)
            self._begin(writer.set(text) if text else writer.unset())

        ask(self.app, dialog, entered)

    def _writer(self, key: str) -> SettingWriter:
        return SettingWriter(self._settings, key, self._file, self._change)

    def _begin(self, saving: Coroutine[Any, Any, str]) -> None:
        self.app.run_worker(self._save(saving))

    async def _save(self, saving: Coroutine[Any, Any, str]) -> None:
        async with self._saving:
            try:
                outcome, style = await saving, "$good"
            except (SettingsError, ModelError) as error:
                outcome, style = str(error), "$bad"
            if not is_leaving(self):
                await self._load()
            if is_leaving(self):  # the user may leave while the sources are read
                self._notify(outcome, "information" if style == "$good" else "error")
            else:
                self.listing.say(outcome, style)
