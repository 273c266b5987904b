"""The skills, source and tools of a session, each loaded when it is first needed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import Notice, Record, emit
from mahtab_tui.settings.model import Settings
from mahtab_tui.settings.sources import project_folder

if TYPE_CHECKING:
    from mahtab_tui.knowledge.library import SkillLibrary
    from mahtab_tui.knowledge.loaded import LoadedSkills
    from mahtab_tui.tools.toolset import Toolset


class Knowledge:
    """Any thread may call it."""

    def __init__(self, log: logging.Logger, settings: Settings, past: Sequence[Record] = ()) -> None:
        """past: the records of a resumed session."""
        self._log = log
        self._settings = settings
        self._past = past
        self._making = threading.RLock()
        self._skills: SkillLibrary | None = None
        self._toolset: Toolset | None = None

    def start(self) -> None:
        """Load the skills on a thread."""
        threading.Thread(target=lambda: self.skills.index(), name="skills", daemon=True).start()

    @property
    def skills(self) -> SkillLibrary:
        with self._making:
            if self._skills is None:
                from mahtab_tui.knowledge.library import SkillLibrary
                from mahtab_tui.knowledge.loader import SkillsLoader, skill_folders

                folders = skill_folders(project_folder(), self._settings.skills_dir, of_project=self._settings.of_project("skills_dir"))
                self._skills = SkillLibrary(SkillsLoader(*folders), self._warn)
            return self._skills

    @property
    def loaded(self) -> LoadedSkills:
        """The skills that the model gets with every question."""
        return self.toolset.loaded

    @property
    def toolset(self) -> Toolset:
        with self._making:
            if self._toolset is None:
                from mahtab_tui.knowledge.loaded import LoadedSkills
                from mahtab_tui.tools.toolset import Toolset

                loaded = LoadedSkills(lambda: self.skills, self._settings.skills_budget, self._log)
                for record in self._past:
                    loaded.fold(record)
                self._toolset = Toolset(self._settings.code_dir, self.skills, loaded, self._warn)
            return self._toolset

    def _warn(self, problem: str) -> None:
        emit(self._log, Notice(problem, level="warning"))
