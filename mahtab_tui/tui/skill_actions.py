"""What the commands about skills do."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mahtab_tui.settings.sources import SettingsError, project_folder
from mahtab_tui.tui.settings_actions import SettingsActions

if TYPE_CHECKING:
    from mahtab_tui.tui.app import MahtabApp


class SkillActions(SettingsActions):
    """Seeing, loading and unloading skills."""

    def action_skills(self) -> None:
        from mahtab_tui.tui.external_editor import open_in_editor
        from mahtab_tui.tui.screens.skills.screen import SkillsScreen

        knowledge = self.session.knowledge
        app = cast("MahtabApp", self)
        try:
            self.push_screen(SkillsScreen(knowledge.skills, knowledge.loaded, project_folder(), lambda file: open_in_editor(app, str(file), 0)))
        except SettingsError as error:
            self.tell(str(error), "error")

    def action_unload_skill(self, name: str = "") -> None:
        from mahtab_tui.knowledge.library import NoSkill
        from mahtab_tui.tui.rows.listing import ChooseOne

        loaded = self.session.knowledge.loaded
        if not name and (names := loaded.names):
            self.push_screen(ChooseOne("Unload a skill", names, ""), lambda chosen: self.action_unload_skill(chosen) if chosen else None)
            return
        try:
            loaded.unload(name)
        except NoSkill as error:
            self.tell(str(error) if name else "No skill is loaded.", "warning")
