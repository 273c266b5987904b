"""The loaded skills of a session, whose instructions go with every question."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Notice, Record, emit
from mahtab_tui.knowledge.library import NoSkill, SkillLibrary


class SkillsBudgetExceeded(RuntimeError):
    """A skill does not fit into the budget of loaded skills; the message is a sentence."""


class LoadedSkills:
    """Tracks which skills are loaded, and logs changes. May be used from any thread."""

    def __init__(
        self, skills: Callable[[], SkillLibrary], budget: int, log: logging.Logger | None = None
    ) -> None:
        """budget: characters for all instructions together."""
        self._skills = skills
        self._budget = budget
        self._log = log
        self._lock = threading.RLock()
        self._sizes: dict[str, int] = {}
        """Characters of each skill, in the order of loading."""

    def fold(self, record: Record) -> None:
        """Apply a record of a resumed session."""
        if not isinstance(record, records.Skill):
            return
        if record.loaded:
            self._sizes[record.name] = record.chars
        else:
            self._sizes.pop(record.name, None)

    @property
    def used(self) -> tuple[int, int]:
        """Characters that are loaded, and the budget."""
        with self._lock:
            return sum(self._sizes.values()), self._budget

    @property
    def names(self) -> list[str]:
        with self._lock:
            return list(self._sizes)

    def load(self, name: str) -> None:
        """Keep a skill loaded. Raises `NoSkill`, `SkillsBudgetExceeded`."""
        size = len(self._skills().instructions(name))
        with self._lock:
            self._keep(name, size)

    def _keep(self, name: str, size: int) -> None:
        if self._sizes.get(name) != size:
            left = self._budget - sum(self._sizes.values()) + self._sizes.get(name, 0)
            if size > left:
                loaded = (
                    ", ".join(f"{each} ({chars:,})" for each, chars in self._sizes.items())
                    or "none"
                )
                raise SkillsBudgetExceeded(
                    f"The skill {name} has {size:,} characters, but only {max(0, left):,} of the {self._budget:,} for loaded skills are left. Loaded: {loaded}."
                )
            self._tell(name, size)

    def unload(self, name: str) -> None:
        """Unload a skill. Raises `NoSkill` if it is not loaded."""
        with self._lock:
            if name not in self._sizes:
                raise NoSkill(
                    f"The skill {name!r} is not loaded. Loaded: {', '.join(self._sizes) or 'none'}."
                )
            self._tell(name, None)

    def instructions(self) -> dict[str, str]:
        """Return the current instructions of the loaded skills by name. Unload skills that are gone
        or exceed the budget."""
        told: dict[str, str] = {}
        for name in self.names:
            try:
                text = self._skills().instructions(name)
                with self._lock:
                    if name in self._sizes:  # it may have been unloaded meanwhile
                        self._keep(name, len(text))
                        told[name] = text
            except (NoSkill, SkillsBudgetExceeded) as error:
                with self._lock:
                    if name in self._sizes:
                        self._tell(name, None)
                if self._log is not None:
                    emit(
                        self._log,
                        Notice(f"The skill {name} is no longer loaded. {error}", level="warning"),
                    )
        return told

    def _tell(self, name: str, size: int | None) -> None:
        """Log a change. size: characters; None if the skill is unloaded."""
        chars = self._sizes.pop(name, 0) if size is None else size
        if size is not None:
            self._sizes[name] = size
        if self._log is not None:
            emit(
                self._log,
                records.Skill(name=name, loaded=size is not None, chars=chars, budget=self._budget),
            )
