"""Changes settings and the model while the session runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mahtab_tui.settings.model import SettingsError
from mahtab_tui.tui.terminal_driver import TerminalDriver
from mahtab_tui.tui.theme import MAHTAB

if TYPE_CHECKING:
    from mahtab_tui.session import Session
    from mahtab_tui.tui.screens.models import ModelPicker
    from mahtab_tui.tui.terminal_app import TerminalApp
    from mahtab_tui.tui.ui_state import UiState


class LiveSettings:
    """Shows the settings, and applies what is changed."""

    def __init__(
        self, app: TerminalApp[int], session: Session, choices: UiState, keymap: dict[str, str]
    ) -> None:
        self._app = app
        self._session = session
        self._choices = choices
        self.keymap = keymap
        """The user's own keys, by the id of their command."""

    def apply(self) -> None:
        self._app.set_keymap(self.keymap)
        if isinstance(driver := self._app._driver, TerminalDriver):
            driver.pictures = self._session.settings.pictures

    def show(self) -> None:
        from mahtab_tui.tui.screens.settings.screen import SettingsScreen

        def present() -> dict[str, str]:
            return {"model": self._session.model, "theme": self._app.theme}

        try:
            screen = SettingsScreen(
                self._session.settings, present, self.change, self._model_picker, self._app.tell
            )
        except SettingsError as error:
            self._app.tell(str(error), "error")
        else:
            self._app.push_screen(screen)

    def change(self, key: str, value: Any) -> bool:
        """Change a setting for this session; returns whether it has an effect at once. Raises
        `ModelError`."""
        from mahtab_tui.session.live_settings import change_setting

        at_once = change_setting(self._session, key, value)
        if key == "theme":
            self._app.theme = value or MAHTAB.name
        elif key == "model":
            self._choices.remember_model(self._session.model)
        elif key == "keymap":
            self.keymap = value
        self.apply()
        return at_once or key in ("theme", "keymap", "pictures")

    def add_rules(self, rules: tuple[str, ...]) -> None:
        """Add rules for code, for this session and in the user's configuration."""
        from mahtab_tui.settings.sources import config_files, project_folder
        from mahtab_tui.settings.writing import add_rules

        settings = self._session.settings
        try:
            file = config_files(project_folder())[1]
            add_rules(file, rules)
        except SettingsError as error:
            self._app.tell(
                f"The rule applies to this session only; it was not saved. {error}", "error"
            )
        else:
            self._session.notice(f"{file} now has: {'; '.join(rules)}")
        settings.change("approval_rules", (*settings.approval_rules, *rules))

    def choose_model(self, name: str) -> None:
        """Use a model from now on; without a name, let the user choose one."""
        if name:
            self._use_model(name)
        else:
            self._app.push_screen(self._model_picker(self._session.model), self._use_model)

    def _use_model(self, name: str | None) -> None:
        from mahtab_tui.llm.base import ModelError

        if not name:
            return
        try:
            self._session.set_model(name)
        except ModelError as error:
            self._app.tell(str(error), "error")
        else:
            self._choices.remember_model(self._session.model)

    def _model_picker(self, present: str) -> ModelPicker:
        from mahtab_tui.tui.screens.models import ModelPicker

        settings = self._session.settings
        set_for = {
            key: getattr(settings, key)
            for key in ("sub_model", "reflection_model", "suggestion_model")
        }
        return ModelPicker(
            present,
            [(spec, f"set as {key}") for key, spec in set_for.items() if spec],
            self._choices.models,
            settings.model_access(),
        )

    def tell_of_unknown(self) -> None:
        """Warn about commands and themes in the configuration that do not exist."""
        given = {f"keymap.{name}": keys for name, keys in self.keymap.items()}
        if (theme := self._session.settings.theme) and theme not in self._app.available_themes:
            given["theme"] = theme
        if given:
            from mahtab_tui.tui.screens.settings.checks import check

            for key, value in given.items():
                try:
                    check(key, value)
                except SettingsError as error:
                    self._session.notice(
                        f"{self._session.settings.place_of(key).text}: {error}", "warning"
                    )
