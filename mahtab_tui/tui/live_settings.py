"""Changes settings while the application runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from mahtab_tui.llm.base import ModelError
from mahtab_tui.settings.files import config_files, project_folder
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.tui.terminal_driver import TerminalDriver
from mahtab_tui.tui.theme import MAHTAB

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.settings.model import EditorKeys
    from mahtab_tui.tui.terminal_app import TerminalApp
    from mahtab_tui.tui.ui_state import UiState


class LiveSettings:
    """The settings of the running application, and its key map."""

    def __init__(
        self,
        app: TerminalApp[int],
        session: Session,
        ui_state: UiState,
        command_ids: Collection[str],
        use_editor_keys: Callable[[EditorKeys], None],
    ) -> None:
        """
        Args:
            app: The application.
            session: It has the settings.
            ui_state: Remembers the model that is chosen.
            command_ids: The commands that a key map may name.
            use_editor_keys: Called with the setting `keys`.
        """
        self._app = app
        self._command_ids = command_ids
        self.session = session
        self._ui_state = ui_state
        self._use_editor_keys = use_editor_keys
        self.keymap = session.settings.keymap

    def apply(self) -> None:
        """Give the application, its editor and its terminal the keys and the setting for pictures."""
        self._app.set_keymap(self.keymap)
        self._use_editor_keys(self.session.settings.keys)
        driver = self._app._driver
        if isinstance(driver, TerminalDriver):
            driver.pictures = self.session.settings.pictures

    def change(self, key: str, value: Any) -> bool:
        """Change a setting for this session; return whether it takes effect at once.

        Args:
            key: The setting.
            value: Its new value, which has been checked.

        Raises:
            ModelError: The model cannot be used.
        """
        is_immediate = self.session.change_setting(key, value)
        if key == "theme":
            self._app.theme = value or MAHTAB.name
        elif key == "model":
            self._ui_state.remember_model(self.session.model)
        elif key == "keymap":
            self.keymap = value
        self.apply()
        return is_immediate or key in ("theme", "keymap", "pictures", "keys", "notifications")

    def add_rules(self, rules: tuple[str, ...]) -> None:
        """Add rules of approval, for this session and in the user's own file of settings.

        If they cannot be saved, the user is told.
        """
        from mahtab_tui.settings.values import add_rules

        settings = self.session.settings
        try:
            user_file = config_files(project_folder()).user_file
            add_rules(user_file, rules)
        except SettingsError as error:
            problem = f"The rule applies to this session only; it was not saved. {error}"
            self._app.notify(problem, "error")
        else:
            self.session.notice(f"{user_file} now has: {'; '.join(rules)}")
        settings.change("approval_rules", (*settings.approval_rules, *rules))

    def use_model(self, name: str) -> None:
        """Switch to a model, or tell the user why this is impossible."""
        try:
            self.session.set_model(name)
        except ModelError as error:
            self._app.notify(str(error), "error")
        else:
            self._ui_state.remember_model(self.session.model)

    @property
    def used_models(self) -> tuple[str, ...]:
        """Models of this and of earlier sessions, the newest first."""
        return self._ui_state.models

    def check(self, key: str, text: str, provider: str | None = None) -> None:
        """Raise `SettingsError` if a value would be rejected or ignored. Any thread may call it.

        Args:
            key: The setting.
            text: Its value as typed.
            provider: The provider of a model that is named without one.
        """
        from mahtab_tui.tui.setting_check import check_setting

        check_setting(key, text, self._command_ids, provider)

    def report_unknown_settings(self) -> None:
        """Warn about names of themes and commands that do not exist."""
        values = {f"keymap.{command_id}": keys for command_id, keys in self.keymap.items()}
        theme = self.session.settings.theme
        if theme and theme not in self._app.available_themes:
            values["theme"] = theme
        if not values:
            return

        for key, value in values.items():
            try:
                self.check(key, value)
            except SettingsError as error:
                origin = self.session.settings.origin(key).text
                self.session.notice(f"{origin}: {error}", "warning")
