"""A picker of models."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from textual import work
from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.available import ModelChoice, found_models, ollama_address, ollama_models, problem_of
from mahtab_tui.tui.screens.listing import Listing, ListScreen

_NAME = 26
"""Columns of a model's name."""


class ModelPicker(ListScreen[str | None, ModelChoice]):
    """Returns the name of a model, or None after Escape. Any name can be typed."""

    def __init__(self, present: str, chosen: Sequence[tuple[str, str]], used: Sequence[str], access: Mapping[str, Any]) -> None:
        """present: the model to replace; empty for none. The rest: as for `available.found_models`."""
        super().__init__()
        self.listing = Listing(self, "Model", "Enter chooses · any name can be typed · Esc cancels")
        self._present = present
        self._chosen = chosen
        self._used = used
        self._access = access
        self._models: list[ModelChoice] = []

    def on_mount(self) -> None:
        self.listing.count("looking…")
        # A thread of the pool would delay the end of the program.
        threading.Thread(target=self._look, name="models", daemon=True).start()

    def _look(self) -> None:
        """Find the models of this machine, then ask Ollama for its own; runs on a thread."""
        present = [(self._present, "chosen now")] if self._present else []
        self.call_later(self._take_models, found_models([*present, *self._chosen], self._used, self._access), False)
        self.call_later(self._take_models, ollama_models(), True)

    def _take_models(self, models: Sequence[ModelChoice] | None, whole: bool) -> None:
        """Take in what one place that knows models has answered. models: None if it did not answer. whole: whether it was the last place to ask."""
        known = {model.spec for model in self._models}
        self._models += [model for model in models or () if model.spec not in known]
        if models is None:
            self._models = [
                model._replace(about=f"{model.about}; nobody answers at {ollama_address()}") if model.spec == "ollama:" else model
                for model in self._models
            ]
        self.listing.count("" if whole else "asking Ollama…")
        self.listing.fill()

    def rows(self, typed: str) -> Sequence[ModelChoice]:
        words = typed.lower().split()
        found = [model for model in self._models if all(word in f"{model.spec} {model.about} {model.problem}".lower() for word in words)]
        found.sort(key=lambda model: not model.spec.startswith(typed))
        if typed and not any(model.spec == typed for model in self._models):
            found.append(ModelChoice(typed, "as typed"))
        return found

    def line(self, row: ModelChoice, width: int) -> Content:
        mark = ("● ", "$moon") if row.spec == self._present else ("✗ ", "$bad") if row.problem else "  "
        name = plain(f"{row.spec}…" if row.is_provider else row.spec)
        return Content.assemble(mark, (f"{name:<{_NAME}} ", "$muted" if row.problem else ""), (plain(row.problem or row.about), "$muted"))

    def describe(self, row: ModelChoice | None) -> Content:
        if row is None:
            return Content("")
        return Content.styled(plain(row.problem), "$bad") if row.problem else Content(plain(row.about))

    def take(self) -> None:
        if (row := self.listing.chosen) is None:
            return
        if row.problem:
            self.listing.say(row.problem)
        elif row.is_provider:
            self.listing.set_text(row.spec)
        else:
            self._try(row.spec)

    @work(exclusive=True)
    async def _try(self, spec: str) -> None:
        problem = await asyncio.to_thread(problem_of, spec, self._access)
        if not self.is_current:
            return
        if problem:
            self.listing.say(problem)
        else:
            self.dismiss(spec)
