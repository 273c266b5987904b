"""The screen of all settings."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.notifications import SeverityLevel
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
from mahtab_tui.tui.screens.dialog import Dialog, ask
from mahtab_tui.tui.screens.listing import (
    ChooseOne,
    ListScreen,
    ModelPicker,
    matches_words,
    short_path,
)
from mahtab_tui.tui.textual_fixes import is_being_removed
from mahtab_tui.tui.theme import MAHTAB, MAHTAB_DAY

GROUPS: Mapping[str, Sequence[str]] = {
    heading: keys.split()
    for heading, keys in {
        "Models": """model reflection_model suggestion_model sub_model embedding_model provider
            base_url api_keys claude_api_key model_timeout""",
        "Questions": """approval approval_rules reflection output_answers max_turns max_history
            max_usd skills_dir skills_budget code_dir""",
        "Searches": """rlm_max_depth rlm_max_turns rlm_max_calls rlm_max_usd rlm_max_seconds
            rlm_concurrency rlm_small rlm_ask_above""",
        "Kernel": """python kernel jupyter_token reload undo_steps undo_memory keep_namespace
            keep_namespace_mb keep_kernel""",
        "Screen": "theme pictures keymap",
        "Agents": "share agent_gone project output_format highlight viewer mcp",
    }.items()
}
_HEADINGS = {key: heading for heading, keys in GROUPS.items() for key in keys}
_POSITIONS = {key: index for index, key in enumerate(_HEADINGS)}


def setting_position(key: str) -> int:
    """Return the sort position of a setting; a table's entries stay together."""
    return _POSITIONS.get(key.partition(".")[0], len(_POSITIONS))


def check(key: str, text: str, provider: str | None = None) -> None:
    """Validate a value. Raises `SettingsError` if it would be rejected or ignored. provider: the
    provider of a model named without one."""
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
    return [*(command.id for command in COMMANDS), *(command.id for command in PANE_COMMANDS)]


def _require_known(key: str, name: str, names: Collection[str], what: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names)}."
        raise SettingsError(f"{key}: there is no {what} {name!r}. {hint}")


class SettingWriter:
    """Writes a setting. Each method returns a sentence that reports the outcome; if one raises
    `SettingsError` or `ModelError`, nothing has changed."""

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
        value = await asyncio.to_thread(self._checked, text)
        table = self._key.partition(".")[0]
        before = getattr(self._settings, table)
        at_once = self._apply(value)
        new = parse_value(self._key, text)
        # New entries of a table are added to those in the file.
        rows = {self._key: new}
        if isinstance(new, dict):
            rows = {f"{self._key}.{name}": each for name, each in new.items()}
        try:
            for key, each in rows.items():
                await asyncio.to_thread(set_value, self._file, key, each)
        except SettingsError as error:
            if at_once:
                raise SettingsError(
                    f"Changed for this session only; it was not saved. {error}"
                ) from None
            self._change(table, before)
            raise
        return f"Saved. {_effect_time(at_once)}{await asyncio.to_thread(self._winner, next(iter(rows)))}"

    async def unset(self) -> str:
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
        return f"Removed {self._key} from the file. {_effect_time(at_once)}"

    def _checked(self, text: str) -> Any:
        new = parse_value(self._key, text)
        check(self._key, text, self._settings.provider)
        return validate_value(self._key, new)

    def _apply(self, value: Any) -> bool:
        table, dot, name = self._key.partition(".")
        present = getattr(self._settings, table)
        if dot or is_table(table):
            value = {**present, name: value} if dot else {**present, **value}
        return self._change(table, value)

    def _winner(self, key: str) -> str:
        """Name the source that will override the file at the next start; empty if none does."""
        try:
            origin = self._settings.origin(key)
        except SettingsError as error:
            return f" But {error}"
        if origin.file == self._file:
            return ""
        return f" But {origin.text} overrides it from the next start."


def _effect_time(at_once: bool) -> str:
    return "It takes effect at once." if at_once else "It takes effect at the next start."


class EditSetting(Dialog[str | None]):
    """Returns a valid value, an empty text to remove the setting from the file, or None after
    Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, entry: SettingEntry, value: str, *, secret: bool) -> None:
        super().__init__()
        self._entry = entry
        self._value = value
        self._secret = secret

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._entry.key, markup=False)
            yield Static(f"{self._entry.description}.", classes="setting-about", markup=False)
            yield LineInput(self._value, compact=True, password=self._secret)
            yield Static(classes="setting-wrong", markup=False)
            yield Static(
                "Enter saves · empty unsets it · Esc cancels", classes="quiet", markup=False
            )

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._show_problem("")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._take(event.value.strip())

    @work(exclusive=True)
    async def _take(self, text: str) -> None:
        """Validate the text on a thread, because this looks up folders and programs; return it if
        it is valid."""
        problem = ""
        try:
            if text:
                await asyncio.to_thread(parse_value, self._entry.key, text)
                await asyncio.to_thread(check, self._entry.key, text)
        except SettingsError as error:
            problem = plain(str(error))
        if not self.is_current:
            return
        if problem:
            self._show_problem(problem)
        else:
            self.dismiss(text)

    def _show_problem(self, text: str) -> None:
        self.query_one(".setting-wrong", Static).update(Content.styled(text, "$bad"))


_KEY, _VALUE, _ORIGIN = 20, 44, 16
"""Columns for the key, the value (at most) and the source."""


class SettingsScreen(ListScreen[None, SettingEntry]):
    """Lists all settings. Enter changes the one at the cursor; Escape closes the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("tab", "other_file", "Other file"),
        ("ctrl+r", "unset", "Remove from the file"),
    ]
    heading_text = "Settings"
    hint = "Enter changes it · Tab other file · Ctrl+R unsets it · Esc leaves"

    def __init__(
        self,
        settings: Settings,
        present: Callable[[], dict[str, str]],
        change: Callable[[str, Any], bool],
        make_picker: Callable[[str], ModelPicker],
        notify: Callable[[str, SeverityLevel], None],
    ) -> None:
        """present: values in effect of settings that are not set, by key. change: sets a value for
        this session and returns whether it takes effect at once.

        make_picker: creates a screen to choose another model. notify: reports a change that ends
        after the screen was closed. Raises `SettingsError` if the project's folder was deleted.
        """
        super().__init__()
        self._settings = settings
        self._current = present
        self._change = change
        self._make_picker = make_picker
        self._notify = notify
        self._entries: list[SettingEntry] = []
        self._project = project_folder()
        self._files = config_files(self._project)
        self._file = self._files[1]
        self._saving = asyncio.Lock()

    def on_mount(self) -> None:
        self.show_count(self._target())
        self.app.run_worker(self._load())

    # The rows

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
        present = self._current()
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
        self._entries.sort(key=lambda entry: setting_position(entry.key))
        if not is_being_removed(self):
            self.fill()

    def heading(self, row: SettingEntry) -> str:
        return "" if self.typed else _HEADINGS.get(row.key.partition(".")[0], "Others")

    def find_rows(self, typed: str) -> Sequence[SettingEntry]:
        """Return the settings whose key starts with the text, then those whose key contains it,
        then other matches."""
        found = [
            entry
            for entry in self._entries
            if matches_words(typed, f"{entry.key} {entry.value} {entry.description}")
        ]
        key = typed.lower()
        return sorted(found, key=lambda each: (not each.key.startswith(key), key not in each.key))

    def line(self, row: SettingEntry, width: int) -> Content:
        room = min(max(width - _KEY - _ORIGIN - 2, 8), _VALUE)
        value = Content(plain(row.value)).truncate(room, ellipsis=True, pad=True)
        style = (
            "$muted" if row.value == NOT_SET else "$moon" if row.origin.text != "default" else ""
        )
        return Content.assemble(
            f"{row.key:<{_KEY}} ", value.stylize(style), " ", (self._short(row.origin), "$muted")
        )

    def describe(self, row: SettingEntry | None) -> Content:
        if row is None:
            return Content("No setting matches." if self._entries else "")
        values = choices(row.key) if "." not in row.key else ()
        allowed = f" ({', '.join(values)})" if values else ""
        origin = plain(f"From: {short_path(row.origin.text, self._project)}")
        return Content.assemble(f"{row.description}{allowed}.\n", (origin, "$muted"))

    def _short(self, origin: ValueOrigin) -> str:
        if origin.file is None:
            return origin.text
        return "your file" if origin.file == self._files[1] else "the project's"

    def _target(self) -> str:
        return f"written to {short_path(str(self._file), self._project)}"

    # Changing a setting

    def action_other_file(self) -> None:
        self._file = self._files[self._files.index(self._file) - 1]
        self.show_count(self._target())

    def action_unset(self) -> None:
        if (row := self.chosen) is not None:
            self._begin(self._writer(row.key).unset())

    def take(self) -> None:
        if (row := self.chosen) is None:
            return
        key, present = row.key, "" if row.value == NOT_SET else row.value
        values = theme_names() if key == "theme" else choices(key.partition(".")[0])
        if values == ("true", "false"):
            self._begin(self._writer(key).toggle())
            return
        dialog: ChooseOne | ModelPicker | EditSetting
        if values:
            dialog = ChooseOne(key, values, row.value)
        elif is_model(key):
            dialog = self._make_picker(present)
        else:
            secret = is_secret(key)
            dialog = EditSetting(row, "" if secret else present, secret=secret)

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
            if not is_being_removed(self):
                await self._load()
            if is_being_removed(self):  # the screen may be closed while the sources are read
                self._notify(outcome, "information" if style == "$good" else "error")
            else:
                self.show_status(outcome, style)
