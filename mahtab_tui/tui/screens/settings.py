"""The screen of all settings: what each is, where it comes from, and a dialog to change it.

A change is checked, takes effect in the running session if it can, and is written to the user's file.
`LiveSettings` knows which settings take effect at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.base import ModelError
from mahtab_tui.settings.files import project_folder
from mahtab_tui.settings.model import Settings, SettingsError, config_files
from mahtab_tui.settings.sources import ValueOrigin
from mahtab_tui.settings.values import (
    NOT_SET,
    SettingEntry,
    choices,
    is_secret,
    is_table,
    list_settings,
    parse_value,
    set_value,
    unset,
    validate_value,
)
from mahtab_tui.tui.dialog import Dialog, dialog_box
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.screens.choice import ChooseOne
from mahtab_tui.tui.screens.dialog import ask
from mahtab_tui.tui.screens.listing import ListScreen, matches_words, short_path
from mahtab_tui.tui.screens.model_picker import ModelPicker
from mahtab_tui.tui.setting_check import is_model, theme_names
from mahtab_tui.tui.textual_fixes import is_being_removed

if TYPE_CHECKING:
    from mahtab_tui.tui.live_settings import LiveSettings


# Widths of the columns, in terminal cells.
KEY_WIDTH = 20
MAX_VALUE_WIDTH = 44
ORIGIN_WIDTH = 16
MIN_VALUE_WIDTH = 8
_SWITCH_VALUES = ("true", "false")
"""The values of a setting that is on or off."""


class EditSetting(Dialog[str | None]):
    """Asks for a value, and returns it once it is valid; empty to remove the setting from the file."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(
        self, live: LiveSettings, entry: SettingEntry, value: str, *, secret: bool
    ) -> None:
        """
        Args:
            live: Checks the value.
            entry: The setting.
            value: The text with which the field begins.
            secret: Whether the value is never shown.
        """
        super().__init__()
        self._live = live
        self._entry = entry
        self._value = value
        self._secret = secret

    def compose(self) -> ComposeResult:
        with dialog_box(self._entry.key, "setting"):
            yield Static(f"{self._entry.description}.", classes="setting-about", markup=False)
            yield LineInput(self._value, compact=True, password=self._secret)
            yield Static(classes="setting-wrong", markup=False)
            keys = "Enter saves · empty unsets it · Esc cancels"
            yield Static(keys, classes="quiet", markup=False)

    @on(Input.Changed)
    def _changed(self) -> None:
        self._show_problem("")

    @on(Input.Submitted)
    @work(exclusive=True)
    async def _submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        try:
            if text:
                await asyncio.to_thread(parse_value, self._entry.key, text)
                await asyncio.to_thread(self._live.check, self._entry.key, text)
            if self.is_current:
                self.dismiss(text)
        except SettingsError as error:
            self._show_problem(plain(str(error)))

    def _show_problem(self, text: str) -> None:
        """Say why the value is not valid; empty if it may be."""
        self.query_one(".setting-wrong", Static).update(Content.styled(text, "$bad"))


class SettingsScreen(ListScreen[None, SettingEntry]):
    """Lists all settings with their values and where these come from; Enter changes one."""

    heading_text = "Settings"
    hint = "Enter changes it · Esc leaves"

    def __init__(self, live: LiveSettings) -> None:
        """
        Args:
            live: The settings of the running session, which this screen changes.

        Raises:
            SettingsError: The project's folder was deleted.
        """
        super().__init__()
        self._live = live
        self._settings = live.session.settings
        self._entries: list[SettingEntry] = []
        """All rows; empty until the settings have been read."""
        self._project = project_folder()
        self._file = config_files(self._project).user_file
        """The file to which changes are written."""
        self._saving = asyncio.Lock()
        """Held while a change is written, so that two fast ones do not mix."""

    def on_mount(self) -> None:
        self.show_count(f"written to {short_path(str(self._file), self._project)}")
        self.app.run_worker(self._load())

    async def _load(self) -> None:
        """Read all settings, which may be in several files, and list them."""
        try:
            entries = await asyncio.to_thread(list_settings, self._settings)
        except SettingsError as error:
            # A file is broken.
            entries = _entries_without_values()
            if not is_being_removed(self):
                self.show_status(str(error))

        self._entries = self._rows_of(entries)
        if not is_being_removed(self):
            self.fill()

    def _rows_of(self, entries: Sequence[SettingEntry]) -> list[SettingEntry]:
        """Return the rows of the list: the settings, and a row to add to each table."""
        # Without a setting, the program has chosen these.
        current_values = {"model": self._live.session.model, "theme": self.app.theme}
        rows: list[SettingEntry] = []
        for index, entry in enumerate(entries):
            if entry.value == NOT_SET and entry.key in current_values:
                entry = entry._replace(value=current_values[entry.key])
            rows.append(entry)
            # After the last entry of a table, such as ``api_keys.openai``.
            table, dot, _ = entry.key.partition(".")
            next_key = entries[index + 1].key if index + 1 < len(entries) else ""
            if dot and not next_key.startswith(f"{table}."):
                origin = ValueOrigin("name=value adds")
                rows.append(SettingEntry(table, "", origin, entry.description))
        return rows

    def find_rows(self, typed: str) -> Sequence[SettingEntry]:
        matches = []
        for entry in self._entries:
            if matches_words(typed, f"{entry.key} {entry.value} {entry.description}"):
                matches.append(entry)
        # Keys that begin with the typed text come first.
        return sorted(matches, key=lambda entry: not entry.key.startswith(typed.lower()))

    def line(self, row: SettingEntry, width: int) -> Content:
        value_width = width - KEY_WIDTH - ORIGIN_WIDTH - 2
        value_width = max(MIN_VALUE_WIDTH, min(value_width, MAX_VALUE_WIDTH))
        value = Content(plain(row.value)).truncate(value_width, ellipsis=True, pad=True)
        if row.value == NOT_SET:
            style = "$muted"
        elif row.origin.text != "default":
            style = "$highlight"
        else:
            style = ""
        origin = row.origin.text
        if row.origin.file is not None:
            origin = "your file" if row.origin.file == self._file else "the project's"
        key = f"{row.key:<{KEY_WIDTH}} "
        return Content.assemble(key, value.stylize(style), " ", (origin, "$muted"))

    def describe(self, row: SettingEntry | None) -> Content:
        if row is None:
            return Content("No setting matches." if self._entries else "")
        description = row.description
        values = choices(row.key) if "." not in row.key else ()
        if values:
            description += f" ({', '.join(values)})"
        origin = plain(f"From: {short_path(row.origin.text, self._project)}")
        return Content.assemble(f"{description}.\n", (origin, "$muted"))

    def choose(self, row: SettingEntry) -> None:
        """Change a switch at once; of another setting, ask for the value."""
        key = row.key
        values = theme_names() if key == "theme" else choices(key.partition(".")[0])
        if values == _SWITCH_VALUES:
            is_on = getattr(self._settings, key)
            self._save(key, "false" if is_on else "true")
            return
        dialog = self._value_dialog(row, values)
        ask(self.app, dialog, lambda text: self._save(key, text))

    def _value_dialog(
        self, row: SettingEntry, values: Sequence[str]
    ) -> ChooseOne | ModelPicker | EditSetting:
        """Return the dialog that asks for a value.

        Args:
            row: The setting.
            values: The values that it can have; empty if it can have others.
        """
        if values:
            return ChooseOne(row.key, values, row.value)
        current_value = "" if row.value == NOT_SET else row.value
        if is_model(row.key):
            return ModelPicker(self._live, current_value)
        # A secret is never shown, so its field begins empty.
        is_hidden = is_secret(row.key)
        visible_value = "" if is_hidden else current_value
        return EditSetting(self._live, row, visible_value, secret=is_hidden)

    def _save(self, key: str, text: str) -> None:
        """Write a setting, or remove it if the text is empty, also if the screen is closed meanwhile."""
        self.app.run_worker(self._save_and_report(key, text))

    async def _save_and_report(self, key: str, text: str) -> None:
        """Write a setting, and say what came of it; one at a time."""
        async with self._saving:
            try:
                if text:
                    outcome = await self._set(key, text)
                else:
                    outcome = await self._unset(key)
                has_failed = False
            except (SettingsError, ModelError) as error:
                outcome = str(error)
                has_failed = True
            if not is_being_removed(self):
                await self._load()
            # The screen may be closed while the sources are read.
            if is_being_removed(self):
                self.app.notify(outcome, severity="error" if has_failed else "information")
            else:
                self.show_status(outcome, "$bad" if has_failed else "$good")

    async def _set(self, key: str, text: str) -> str:
        """Change a setting, and write it to the file.

        Args:
            key: The setting, such as ``theme``; or the entry of a table, such as ``api_keys.openai``.
            text: The value as the user types it.

        Returns:
            A sentence that says what came of it.

        Raises:
            SettingsError: The value is not valid, or could not be written.
            ModelError: There is no such model.
        """
        parsed_value = parse_value(key, text)
        await asyncio.to_thread(self._live.check, key, text, self._settings.provider)
        value = await asyncio.to_thread(validate_value, key, parsed_value)

        table = key.partition(".")[0]
        old_value = getattr(self._settings, table)
        is_immediate = self._live.change(table, _with_entries(key, value, old_value))
        # Each entry of a table has a line of its own.
        lines = {key: parsed_value}
        if isinstance(parsed_value, dict):
            lines = {f"{key}.{name}": entry for name, entry in parsed_value.items()}
        try:
            await self._write(lines)
        except SettingsError as error:
            # What takes effect at once stays, because the user sees it already.
            if not is_immediate:
                self._live.change(table, old_value)
                raise
            problem = f"Changed for this session only; it was not saved. {error}"
            raise SettingsError(problem) from None
        return self._saved_sentence(next(iter(lines)), is_immediate)

    async def _write(self, lines: Mapping[str, Any]) -> None:
        """Write values to the user's file, each under its key. Raises `SettingsError`."""
        for key, value in lines.items():
            await asyncio.to_thread(set_value, self._file, key, value)

    def _saved_sentence(self, key: str, is_immediate: bool) -> str:
        """Say when a setting takes effect, and what may keep it from doing so."""
        sentence = f"Saved. {_effect_sentence(is_immediate)}"
        try:
            origin = self._settings.origin(key)
        except SettingsError as error:
            # Another file is broken.
            return f"{sentence} But {error}"
        if origin.file != self._file:
            sentence += f" But {origin.text} overrides it from the next start."
        return sentence

    async def _unset(self, key: str) -> str:
        """Remove a setting from the file, and return what came of it. Raises `SettingsError`."""
        if not await asyncio.to_thread(unset, self._file, key):
            raise SettingsError(f"{self._file} does not set {key}.")
        table = key.partition(".")[0]
        sources = await asyncio.to_thread(self._settings.reloaded)
        is_immediate = self._live.change(table, getattr(sources, table))
        return f"Removed {key} from the file. {_effect_sentence(is_immediate)}"


def _entries_without_values() -> list[SettingEntry]:
    """Return all settings, of which the values are not known."""
    origin = ValueOrigin("not known")
    return [
        SettingEntry(key, "", origin, field.description or "")
        for key, field in Settings.model_fields.items()
    ]


def _with_entries(key: str, value: Any, old_value: Any) -> Any:
    """Return the new value of a setting. The entries of a table are added to those that it has.

    Args:
        key: The setting, or an entry of a table, such as ``api_keys.openai``.
        value: What the user has set.
        old_value: The setting's value before.
    """
    table, dot, name = key.partition(".")
    if dot:
        return {**old_value, name: value}
    if is_table(table):
        return {**old_value, **value}
    return value


def _effect_sentence(is_immediate: bool) -> str:
    """Say when a change takes effect."""
    if is_immediate:
        return "It takes effect at once."
    return "It takes effect at the next start."
