"""The skills that go with each question."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record, emit, warn
from mahtab_tui.knowledge.library import SkillLibrary, SkillNotFound


class SkillsBudgetExceeded(RuntimeError):
    """A skill does not fit into the budget of loaded skills; the message is a sentence."""


class LoadedSkills:
    """The loaded skills, for any thread."""

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
        self._sizes: dict[str, int] = {}

    def fold(self, record: Record) -> None:
        """Apply a record of a resumed session."""
        if not isinstance(record, records.SkillRecord):
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
        """The loaded skills, in the order in which they were loaded."""
        with self._lock:
            return list(self._sizes)

    def load(self, name: str) -> None:
        """Load a skill. Raises `SkillNotFound`, `SkillsBudgetExceeded`."""
        size = len(self._skills().instructions(name))
        with self._lock:
            self._update_size(name, size)

    def _update_size(self, name: str, size: int) -> None:
        """Note how many characters a loaded skill has. Raises `SkillsBudgetExceeded`."""
        current_size = self._sizes.get(name)
        if current_size == size:
            return
        remaining_chars = self._budget - sum(self._sizes.values()) + (current_size or 0)
        if size > remaining_chars:
            sizes = (f"{loaded_name} ({chars:,})" for loaded_name, chars in self._sizes.items())
            loaded_names = ", ".join(sizes) or "none"
            raise SkillsBudgetExceeded(
                f"The skill {name} has {size:,} characters, but only {max(0, remaining_chars):,} of the {self._budget:,} for loaded skills are left. Loaded: {loaded_names}."
            )
        self._report(name, size)

    def unload(self, name: str) -> None:
        """Unload a skill. Raises `SkillNotFound`."""
        with self._lock:
            if name not in self._sizes:
                raise SkillNotFound(
                    f"The skill {name!r} is not loaded. Loaded: {', '.join(self._sizes) or 'none'}."
                )
            self._report(name, None)

    def instructions(self) -> dict[str, str]:
        """Return loaded texts; skills that are gone or too large are unloaded."""
        texts: dict[str, str] = {}
        for name in self.names:
            try:
                text = self._skills().instructions(name)
                with self._lock:
                    if name in self._sizes:  # it may have been unloaded meanwhile
                        self._update_size(name, len(text))
                        texts[name] = text
            except (SkillNotFound, SkillsBudgetExceeded) as error:
                with self._lock:
                    if name in self._sizes:
                        self._report(name, None)
                if self._log is not None:
                    warn(self._log, f"The skill {name} is no longer loaded. {error}")
        return texts

    def _report(self, name: str, size: int | None) -> None:
        """Note that a skill was loaded with this many characters, or unloaded (None)."""
        is_loaded = size is not None
        if size is None:
            size = self._sizes.pop(name, 0)
        else:
            self._sizes[name] = size
        if self._log is not None:
            record = records.SkillRecord(
                name=name, loaded=is_loaded, chars=size, budget=self._budget
            )
            emit(self._log, record)
