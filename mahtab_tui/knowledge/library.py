"""The skills of a session: loaded in the background, loaded anew when their files change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mahtab_tui.knowledge.loader import SkillsLoader
from mahtab_tui.knowledge.skills import Skill

FRESH = 1.0
"""Seconds for which what was looked at is taken as it was."""


class NoSkill(RuntimeError):
    """There is no such skill, or no such file of it; the message is a sentence."""


class SkillLibrary:
    """The skills by name. May be used from any thread."""

    def __init__(self, loader: SkillsLoader, on_problem: Callable[[str], None]) -> None:
        """on_problem: told once of each thing that is wrong with a skill."""
        self._loader = loader
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._skills: dict[str, Skill] = {}
        self._told: set[str] = set()
        self._looked = float("-inf")

    def start(self) -> None:
        """Begin to load, on a thread."""
        threading.Thread(target=self.skills, name="skills", daemon=True).start()

    def skills(self) -> dict[str, Skill]:
        """All skills by name, as the files are now; waits for the first loading."""
        with self._lock:
            if time.monotonic() - self._looked > FRESH:
                found = {skill.name: skill for skill in self._loader.load_all()}
                if found != self._skills:
                    self._skills = found
                self._looked = time.monotonic()
            problems = [problem for problem in self._loader.problems if problem not in self._told]
            self._told.update(problems)
            skills = self._skills
        for problem in problems:
            self._on_problem(problem)
        return skills

    def descriptions(self) -> dict[str, str]:
        """What the model sees of each skill: its description, by name."""
        return {name: skill.description for name, skill in self.skills().items()}

    def get(self, name: str) -> Skill:
        """A skill by its name. Raises `NoSkill`."""
        skills = self.skills()
        if name not in skills:
            raise NoSkill(f"There is no skill {name!r}. Skills: {', '.join(sorted(skills)) or 'none'}.")
        return skills[name]

    def instructions(self, name: str, args: str = "") -> str:
        """What `skill(name, args)` gives. Raises `NoSkill`."""
        return self.get(name).content + (f"\n\nArguments: {args}" if args else "")
