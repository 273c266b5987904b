"""The skills whose instructions go with each question, within a budget of characters."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record, emit, warn
from mahtab_tui.knowledge.library import SkillLibrary, SkillNotFound


class SkillsBudgetExceeded(RuntimeError):
    """A skill does not fit into the budget of loaded skills; the message is a sentence."""


class BudgetUse(NamedTuple):
    """How much of the budget for loaded skills is used, in characters."""

    used: int
    budget: int


class LoadedSkills:
    """The loaded skills of a session. Any thread may call it."""

    def __init__(
        self, skills: Callable[[], SkillLibrary], budget: int, log: logging.Logger | None = None
    ) -> None:
        """
        Args:
            skills: Returns the library.
            budget: Characters that the instructions of all loaded skills may have.
            log: Gets a record whenever a skill is loaded or unloaded.
        """
        self._skills = skills
        self._budget = budget
        self._log = log
        self._lock = threading.RLock()
        """Held while the sizes are used, and while a change of them is logged: handlers of the log may
        ask for the sizes."""
        self._sizes: dict[str, int] = {}
        """Characters of the instructions of each loaded skill, in the order of loading."""

    def fold(self, record: Record) -> None:
        """Apply a record of a resumed session."""
        if not isinstance(record, records.SkillRecord):
            return
        if record.loaded:
            self._sizes[record.name] = record.chars
        else:
            self._sizes.pop(record.name, None)

    @property
    def used(self) -> BudgetUse:
        """How much of the budget the loaded skills take."""
        with self._lock:
            return BudgetUse(sum(self._sizes.values()), self._budget)

    @property
    def names(self) -> list[str]:
        """The loaded skills, in the order in which they were loaded."""
        with self._lock:
            return list(self._sizes)

    def load(self, name: str) -> None:
        """Load a skill. Raises `SkillNotFound`, `SkillsBudgetExceeded`."""
        size = len(self._skills().instructions(name))
        with self._lock:
            self._set_size(name, size)

    def _set_size(self, name: str, size: int) -> None:
        """Note how many characters a loaded skill has, and log it if that is new.

        The caller holds the lock. Raises `SkillsBudgetExceeded`.
        """
        old_size = self._sizes.get(name)
        if old_size == size:
            return
        remaining_chars = self._budget - sum(self._sizes.values()) + (old_size or 0)
        if size > remaining_chars:
            sizes = (f"{loaded_name} ({chars:,})" for loaded_name, chars in self._sizes.items())
            loaded_names = ", ".join(sizes) or "none"
            raise SkillsBudgetExceeded(
                f"The skill {name} has {size:,} characters, but only {max(0, remaining_chars):,} of the {self._budget:,} for loaded skills are left. Loaded: {loaded_names}."
            )
        self._sizes[name] = size
        self._report(name, size, is_loaded=True)

    def unload(self, name: str) -> None:
        """Unload a skill. Raises `SkillNotFound`."""
        with self._lock:
            if name not in self._sizes:
                raise SkillNotFound(
                    f"The skill {name!r} is not loaded. Loaded: {', '.join(self._sizes) or 'none'}."
                )
            self._remove(name)

    def _remove(self, name: str) -> None:
        """Unload a skill that is loaded, and log it. The caller holds the lock."""
        self._report(name, self._sizes.pop(name), is_loaded=False)

    def instructions(self) -> dict[str, str]:
        """Return the instructions of the loaded skills as they are now, by name.

        Skills that are gone, or have become too large, are unloaded.
        """
        texts: dict[str, str] = {}
        for name in self.names:
            try:
                text = self._skills().instructions(name)
                with self._lock:
                    if name in self._sizes:  # it may have been unloaded meanwhile
                        self._set_size(name, len(text))
                        texts[name] = text
            except (SkillNotFound, SkillsBudgetExceeded) as error:
                self._drop(name, str(error))
        return texts

    def _drop(self, name: str, reason: str) -> None:
        """Unload a skill that cannot be used any more, and tell the user the reason."""
        with self._lock:
            if name in self._sizes:
                self._remove(name)
        if self._log is not None:
            warn(self._log, f"The skill {name} is no longer loaded. {reason}")

    def _report(self, name: str, size: int, *, is_loaded: bool) -> None:
        """Log that a skill was loaded or unloaded.

        Args:
            name: The skill.
            size: How many characters its instructions have.
            is_loaded: Whether it is loaded now.
        """
        if self._log is not None:
            record = records.SkillRecord(
                name=name, loaded=is_loaded, chars=size, budget=self._budget
            )
            emit(self._log, record)
