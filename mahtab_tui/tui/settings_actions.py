"""Actions on the settings, the model among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mahtab_tui.llm.base import ModelError
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.tui.actions import SessionActions
from mahtab_tui.tui.commands import ALL
from mahtab_tui.tui.theme import MAHTAB
from mahtab_tui.tui.typed_ahead import TypedAheadDriver

if TYPE_CHECKING:
    from mahtab_tui.tui.screens.models import ModelPicker


class SettingsActions(SessionActions):
    """Seeing and changing settings while the session runs."""

    def action_settings(self) -> None:
        from mahtab_tui.tui.screens.settings.screen import SettingsScreen

        def present() -> dict[str, str]:
            return {"model": self.session.model, "theme": self.theme}

        try:
            self.push_screen(SettingsScreen(self.session.settings, present, self.change_setting, self._model_picker, self.tell))
        except SettingsError as error:
            self.tell(str(error), "error")

    def action_choose_model(self, value: str = "") -> None:
        if value:
            self._set_model(value)
            return

        def chosen(spec: str | None) -> None:
            if spec:
                self._set_model(spec)

        self.push_screen(self._model_picker(self.session.model), chosen)

    def change_setting(self, key: str, value: Any) -> bool:
        """Set a setting for this session; whether that holds at once. Raises `ModelError`."""
        from mahtab_tui.session.live_settings import change_setting

        at_once = change_setting(self.session, key, value)
        if key == "theme":
            self.theme = value or MAHTAB.name
        elif key == "keymap":
            self.keymap_given = value
            self.set_keymap(value)
        elif key == "model":
            self._remember_model()
        elif key == "pictures":
            self.set_pictures()
        return at_once or key in ("theme", "keymap", "pictures")

    def set_pictures(self) -> None:
        """Let the driver know how pictures are to be drawn."""
        if isinstance(self._driver, TypedAheadDriver):
            self._driver.pictures = self.session.settings.pictures

    def tell_of_settings(self) -> None:
        """What the configuration names that there is not on a screen: it holds nothing, and is said."""
        given = {f"keymap.{name}": keys for name, keys in self.keymap_given.items() if all(name != command.id for command in ALL)}
        if (theme := self.session.settings.theme) and theme not in self.available_themes:
            given["theme"] = theme
        if given:
            from mahtab_tui.tui.screens.settings.checks import check

            for key, value in given.items():
                try:
                    check(key, value)
                except SettingsError as error:
                    self.session.notice(f"{self.session.settings.place_of(key).text}: {error}", "warning")

    def _model_picker(self, present: str) -> ModelPicker:
        from mahtab_tui.tui.screens.models import ModelPicker

        settings = self.session.settings
        set_for = {key: getattr(settings, key) for key in ("sub_model", "reflection_model", "suggestion_model")}
        return ModelPicker(present, [(spec, f"set as {key}") for key, spec in set_for.items() if spec], self.choices.models, settings.model_access())

    def _set_model(self, model: str) -> None:
        try:
            self.session.set_model(model)
        except ModelError as error:
            self.tell(str(error), "error")
        else:
            self._remember_model()

    def _remember_model(self) -> None:
        self.choices = self.choices.with_model(self.session.model)
