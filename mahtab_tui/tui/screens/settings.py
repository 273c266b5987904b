"""The screen of all settings."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input, Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.launch import find_interpreter
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import full_name, split_spec
from mahtab_tui.settings.model import Settings, SettingsError, config_files
from mahtab_tui.settings.sources import ValueOrigin, project_folder
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
from mahtab_tui.tui.commands import COMMANDS
from mahtab_tui.tui.commands.panes import PANE_COMMANDS
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.screens.dialog import Dialog, ask, dialog_box
from mahtab_tui.tui.screens.listing import (
    ChooseOne,
    ListScreen,
    ModelPicker,
    matches_words,
    short_path,
)
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY

if TYPE_CHECKING:
    from mahtab_tui.tui.session_port import LiveSettings


def check(key: str, text: str, provider: str | None = None) -> None:
    """Raise `SettingsError` if a value would be rejected or ignored. provider: of a model named
    without one."""
    try:
        if is_model(key):
            split_spec(full_name(text, provider))
        elif key == "python":
            find_interpreter(text)
    except (ModelError, KernelError) as error:
        raise SettingsError(f"{key}: {error}") from None
    if key == "theme":
        _require_known(key, text, theme_names(), "theme")
    elif key == "keymap":
        for pair in text.split():
            _require_known(key, pair.partition("=")[0], _commands(), "command")
    elif key.startswith("keymap."):
        _require_known("keymap", key.partition(".")[2], _commands(), "command")


def is_model(key: str) -> bool:
    return key == "model" or (key.endswith("_model") and key != "embedding_model")


def theme_names() -> list[str]:
    from textual.theme import BUILTIN_THEMES

    return [MAHTAB.name, MAHTAB_DAY.name, *BUILTIN_THEMES]


def _commands() -> list[str]:
    return [command.id for command in (*COMMANDS, *PANE_COMMANDS)]


def _require_known(key: str, name: str, names: Collection[str], what: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names)}."
        raise SettingsError(f"{key}: there is no {what} {name!r}. {hint}")


class EditSetting(Dialog[str | None]):
    """Returns a valid value; an empty one removes the setting from the file."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, entry: SettingEntry, value: str, *, secret: bool) -> None:
        super().__init__()
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
                await asyncio.to_thread(check, self._entry.key, text)
            if self.is_current:
                self.dismiss(text)
        except SettingsError as error:
            self._show_problem(plain(str(error)))

    def _show_problem(self, text: str) -> None:
        self.query_one(".setting-wrong", Static).update(Content.styled(text, "$bad"))


_KEY, _VALUE, _ORIGIN = 20, 44, 16


class SettingsScreen(ListScreen[None, SettingEntry]):
    heading_text = "Settings"
    hint = "Enter changes it · Esc leaves"

    def __init__(self, live: LiveSettings) -> None:
        """Raises `SettingsError` if the project's folder was deleted."""
        super().__init__()
        self._live = live
        self._settings = live.session.settings
        self._entries: list[SettingEntry] = []
        self._project = project_folder()
        self._file = config_files(self._project)[1]
        self._saving = asyncio.Lock()

    def on_mount(self) -> None:
        self.show_count(f"written to {short_path(str(self._file), self._project)}")
        self.app.run_worker(self._load())

    async def _load(self) -> None:
        try:
            found = await asyncio.to_thread(list_settings, self._settings)
        except SettingsError as error:
            found = [
                SettingEntry(key, "", ValueOrigin("not known"), field.description or "")
                for key, field in Settings.model_fields.items()
            ]
            if not is_being_removed(self):
                self.show_status(str(error))
        present = {"model": self._live.session.model, "theme": self.app.theme}
        self._entries = []
        for entry, following in zip(found, [*found[1:], None], strict=True):
            table, dot, _ = entry.key.partition(".")
            if entry.value == NOT_SET and entry.key in present:
                entry = entry._replace(value=present[entry.key])
            self._entries.append(entry)
            if dot and (following is None or not following.key.startswith(f"{table}.")):
                adds = ValueOrigin("name=value adds")
                self._entries.append(SettingEntry(table, "", adds, entry.description))
        if not is_being_removed(self):
            self.fill()

    def find_rows(self, typed: str) -> Sequence[SettingEntry]:
        def matches(entry: SettingEntry) -> bool:
            return matches_words(typed, f"{entry.key} {entry.value} {entry.description}")

        found = filter(matches, self._entries)
        return sorted(found, key=lambda each: not each.key.startswith(typed.lower()))

    def line(self, row: SettingEntry, width: int) -> Content:
        room = min(max(width - _KEY - _ORIGIN - 2, 8), _VALUE)
        value = Content(plain(row.value)).truncate(room, ellipsis=True, pad=True)
        style = "$moon" if row.origin.text != "default" else ""
        if row.value == NOT_SET:
            style = "$muted"
        origin = row.origin.text
        if row.origin.file is not None:
            origin = "your file" if row.origin.file == self._file else "the project's"
        key = f"{row.key:<{_KEY}} "
        return Content.assemble(key, value.stylize(style), " ", (origin, "$muted"))

    def describe(self, row: SettingEntry | None) -> Content:
        if row is None:
            return Content("No setting matches." if self._entries else "")
        values = choices(row.key) if "." not in row.key else ()
        allowed = f" ({', '.join(values)})" if values else ""
        origin = plain(f"From: {short_path(row.origin.text, self._project)}")
        return Content.assemble(f"{row.description}{allowed}.\n", (origin, "$muted"))

    def choose(self, row: SettingEntry) -> None:
        key, present = row.key, "" if row.value == NOT_SET else row.value
        values = theme_names() if key == "theme" else choices(key.partition(".")[0])
        if values == ("true", "false"):
            self._save(key, "false" if getattr(self._settings, key) else "true")
            return
        dialog: ChooseOne | ModelPicker | EditSetting
        if values:
            dialog = ChooseOne(key, values, row.value)
        elif is_model(key):
            dialog = self._live.model_picker(present)
        else:
            secret = is_secret(key)
            dialog = EditSetting(row, "" if secret else present, secret=secret)
        ask(self.app, dialog, lambda text: self._save(key, text))

    def _save(self, key: str, text: str) -> None:
        self.app.run_worker(self._report(key, text))

    async def _report(self, key: str, text: str) -> None:
        async with self._saving:
            try:
                outcome = await (self._set(key, text) if text else self._unset(key))
                style = "$good"
            except (SettingsError, ModelError) as error:
                outcome, style = str(error), "$bad"
            if not is_being_removed(self):
                await self._load()
            if is_being_removed(self):  # the screen may be closed while the sources are read
                self.app.notify(outcome, severity="information" if style == "$good" else "error")
            else:
                self.show_status(outcome, style)

    async def _set(self, key: str, text: str) -> str:
        """Write a setting; returns the outcome. Raises `SettingsError` and `ModelError`."""
        table, dot, name = key.partition(".")
        before, new = getattr(self._settings, table), parse_value(key, text)
        await asyncio.to_thread(check, key, text, self._settings.provider)
        value = await asyncio.to_thread(validate_value, key, new)
        if dot or is_table(table):
            value = {**before, name: value} if dot else {**before, **value}
        at_once = self._live.change(table, value)
        # New entries of a table are added to those in the file.
        rows = {key: new}
        if isinstance(new, dict):
            rows = {f"{key}.{name}": each for name, each in new.items()}
        try:
            for row in rows.items():
                await asyncio.to_thread(set_value, self._file, *row)
        except SettingsError as error:
            if not at_once:
                self._live.change(table, before)
                raise
            problem = f"Changed for this session only; it was not saved. {error}"
            raise SettingsError(problem) from None
        try:
            origin = self._settings.origin(next(iter(rows)))
        except SettingsError as error:  # another file is broken
            return f"Saved. {_effect_time(at_once)} But {error}"
        winner = f" But {origin.text} overrides it from the next start."
        return f"Saved. {_effect_time(at_once)}{'' if origin.file == self._file else winner}"

    async def _unset(self, key: str) -> str:
        if not await asyncio.to_thread(unset, self._file, key):
            raise SettingsError(f"{self._file} does not set {key}.")
        table = key.partition(".")[0]
        sources = await asyncio.to_thread(self._settings.reloaded)
        at_once = self._live.change(table, getattr(sources, table))
        return f"Removed {key} from the file. {_effect_time(at_once)}"


def _effect_time(at_once: bool) -> str:
    return "It takes effect at once." if at_once else "It takes effect at the next start."
