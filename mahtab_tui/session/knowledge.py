"""What a session knows beside its namespace: skills, the project's source, and the tools over them. Each is loaded when it is first wanted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.bus.records import Record
from mahtab_tui.settings.sources import project_folder

if TYPE_CHECKING:
    from mahtab_tui.knowledge.library import SkillLibrary
    from mahtab_tui.knowledge.loaded import LoadedSkills
    from mahtab_tui.tools.toolset import Toolset


class Knowledge:
    """Any thread may call it."""

    def __init__(
        self,
        log: logging.Logger,
        on_problem: Callable[[str], None],
        *,
        skills_dir: Sequence[Path],
        skills_of_project: bool = False,
        skills_budget: int,
        code_dir: Path,
        past: Sequence[Record] = (),
    ) -> None:
        """skills_dir, skills_budget, code_dir: as in the settings. skills_of_project: whether a file of the project names skills_dir.

        past: the records of the session that is resumed.
        """
        self._log = log
        self._on_problem = on_problem
        self._skills_dir = skills_dir
        self._of_project = skills_of_project
        self._skills_budget = skills_budget
        self._code_dir = code_dir
        self._past = past
        self._making = threading.RLock()
        self._skills: SkillLibrary | None = None
        self._toolset: Toolset | None = None

    def start(self) -> None:
        """Begin to load the skills, on a thread."""
        threading.Thread(target=lambda: self.skills.index(), name="skills", daemon=True).start()

    @property
    def skills(self) -> SkillLibrary:
        """All skills that there are."""
        with self._making:
            if self._skills is None:
                from mahtab_tui.knowledge.library import SkillLibrary
                from mahtab_tui.knowledge.loader import SkillsLoader, skill_folders

                folders = skill_folders(project_folder(), self._skills_dir, of_project=self._of_project)
                self._skills = SkillLibrary(SkillsLoader(*folders), self._on_problem)
            return self._skills

    @property
    def loaded(self) -> LoadedSkills:
        """Those that the model is told with every question."""
        return self.toolset.loaded

    @property
    def toolset(self) -> Toolset:
        """The tools."""
        with self._making:
            if self._toolset is None:
                from mahtab_tui.knowledge.loaded import LoadedSkills
                from mahtab_tui.tools.toolset import Toolset

                loaded = LoadedSkills(lambda: self.skills, self._skills_budget, self._log)
                for record in self._past:
                    loaded.fold(record)
                self._toolset = Toolset(self._code_dir, self.skills, loaded, self._on_problem)
            return self._toolset
