"""All settings: what they are, where that comes from, and changing them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.notifications import SeverityLevel

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.base import ModelError
from mahtab_tui.settings.model import Settings, SettingsError, config_files
from mahtab_tui.settings.sources import ValueOrigin, project_folder
from mahtab_tui.settings.values import NOT_SET, Entry, choices, entries, is_secret
from mahtab_tui.tui.screens.listing import ChooseOne, Listing
from mahtab_tui.tui.screens.models import ModelPicker
from mahtab_tui.tui.screens.settings.checks import is_model, themes
from mahtab_tui.tui.screens.settings.edit import EditSetting
from mahtab_tui.tui.screens.settings.groups import group_of, order_of
from mahtab_tui.tui.screens.settings.saving import Saving

_KEY, _VALUE, _PLACE = 20, 44, 16
"""Columns of a key, of its value at the most, and of where that comes from."""


class SettingsScreen(Listing[Entry, None]):
    """Enter changes the setting at the cursor; Escape leaves."""

    TITLE = "Settings"
    HINT = "Enter changes it · Tab other file · Ctrl+R unsets it · Esc leaves"
    BINDINGS: ClassVar[list[BindingType]] = [("tab", "other_file", "Other file"), ("ctrl+r", "unset", "Take out of the file")]

    def __init__(
        self,
        settings: Settings,
        present: Callable[[], dict[str, str]],
        change: Callable[[str, Any], bool],
        make_picker: Callable[[str], ModelPicker],
        tell: Callable[[str, SeverityLevel], None],
    ) -> None:
        """present: what holds where a setting says nothing, by key. change: sets a value for this session; whether it holds at once.

        make_picker: lets the user choose a model in the place of one. tell: says what came of a change that ends when the screen was left.
        Raises `SettingsError` where there is no project's folder any more.
        """
        super().__init__()
        self._settings = settings
        self._present = present
        self._change = change
        self._make_picker = make_picker
        self._tell = tell
        self._entries: list[Entry] = []
        self._project = project_folder()
        self._files = config_files(self._project)
        self._file = self._files[1]
        self._one_at_a_time = asyncio.Lock()

    def on_mount(self) -> None:
        self.count(self._target())
        self.app.run_worker(self._load())

    # What is shown

    async def _load(self) -> None:
        """Read all sources anew, on a thread."""
        try:
            found = await asyncio.to_thread(entries, self._settings)
        except SettingsError as error:
            found = [Entry(key, "", ValueOrigin("not known"), field.description or "") for key, field in Settings.model_fields.items()]
            if not self.leaves:
                self.say(str(error))
        present = self._present()
        self._entries = []
        for entry, following in zip(found, [*found[1:], None], strict=True):
            self._entries.append(entry._replace(value=present[entry.key]) if entry.value == NOT_SET and entry.key in present else entry)
            table, dot, _ = entry.key.partition(".")
            if dot and (following is None or not following.key.startswith(f"{table}.")):
                self._entries.append(Entry(table, "", ValueOrigin("name=value adds"), entry.description))
        self._entries.sort(key=lambda entry: order_of(entry.key))
        if not self.leaves:
            self.fill()

    def heading(self, row: Entry) -> str:
        return "" if self.wanted else group_of(row.key)

    def rows(self, wanted: str) -> Sequence[Entry]:
        """The settings that begin so, then those whose key has it, then the others."""
        wanted = wanted.lower()
        words = wanted.split()
        found = [entry for entry in self._entries if all(word in f"{entry.key} {entry.value} {entry.description}".lower() for word in words)]
        return sorted(found, key=lambda entry: (not entry.key.startswith(wanted), wanted not in entry.key)) if words else found

    def line(self, row: Entry, width: int) -> Content:
        room = min(max(width - _KEY - _PLACE - 2, 8), _VALUE)
        value = Content(plain(row.value)).truncate(room, ellipsis=True, pad=True)
        style = "$muted" if row.value == NOT_SET else "$moon" if row.place.text != "default" else ""
        return Content.assemble(f"{row.key:<{_KEY}} ", value.stylize(style), " ", (self._short(row.place), "$muted"))

    def about(self, row: Entry | None) -> Content:
        if row is None:
            return Content("No setting has this in it." if self._entries else "")
        allowed = f" ({', '.join(choices(row.key))})" if "." not in row.key and choices(row.key) else ""
        return Content.assemble(f"{row.description}{allowed}.\n", (plain(f"From: {self._short_path(row.place.text)}"), "$muted"))

    def _short(self, place: ValueOrigin) -> str:
        if place.file is None:
            return place.text
        return "your file" if place.file == self._files[1] else "the project's"

    def _short_path(self, text: str) -> str:
        """A place with the project's and the user's folder in short."""
        for folder, short in ((self._project, "."), (Path.home(), "~")):
            if text.startswith(f"{folder}/"):
                return f"{short}{text[len(str(folder)) :]}"
        return text

    def _target(self) -> str:
        return f"written to {self._short_path(str(self._file))}"

    # What is done

    def action_other_file(self) -> None:
        self._file = self._files[self._files.index(self._file) - 1]
        self.count(self._target())

    def action_unset(self) -> None:
        if (row := self.chosen) is not None:
            self._begin(self._saving(row.key).unset())

    def take(self, row: Entry) -> None:
        key = row.key
        if choices(key.partition(".")[0]) == ("true", "false"):
            self._begin(self._saving(key).toggle())
            return
        offered = themes() if key == "theme" else choices(key.partition(".")[0])
        dialog: ChooseOne | ModelPicker | EditSetting
        if offered:
            dialog = ChooseOne(key, offered, row.value)
        elif is_model(key):
            dialog = self._make_picker(row.value if row.value != NOT_SET else "")
        else:
            secret = is_secret(key)
            dialog = EditSetting(row, "" if secret or row.value == NOT_SET else row.value, secret=secret)

        def entered(text: str | None) -> None:
            if text is not None:
                saving = self._saving(key)
                self._begin(saving.set(text) if text else saving.unset())

        self.app.push_screen(dialog, entered)

    def _saving(self, key: str) -> Saving:
        return Saving(self._settings, key, self._file, self._change)

    def _begin(self, saving: Coroutine[Any, Any, str]) -> None:
        self.app.run_worker(self._save(saving))

    async def _save(self, saving: Coroutine[Any, Any, str]) -> None:
        async with self._one_at_a_time:
            try:
                said, style = await saving, "$good"
            except (SettingsError, ModelError) as error:
                said, style = str(error), "$bad"
            if not self.leaves:
                await self._load()
            if self.leaves:  # also while the sources were read
                self._tell(said, "information" if style == "$good" else "error")
            else:
                self.say(said, style)
