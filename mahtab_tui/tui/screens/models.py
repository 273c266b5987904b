"""A picker of models."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from textual import work
from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.available import ModelChoice, found_models, problem_of, server_models
from mahtab_tui.tui.screens.listing import Listing, ListScreen

_MODEL_WIDTH = 26
"""Columns of a model's name."""
_NO_SERVER = "no server answers on this machine (llama.cpp, LM Studio, vLLM, Ollama)"


class ModelPicker(ListScreen[str | None, ModelChoice]):
    """Returns the name of a model, or None after Escape. Any name can be typed."""

    def __init__(
        self,
        present: str,
        chosen: Sequence[tuple[str, str]],
        used: Sequence[str],
        access: Mapping[str, Any],
    ) -> None:
        """present: the model to replace; empty for none. The rest: as for
        `available.found_models`."""
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
        """Find the models of this machine, then those of its servers; runs on a thread."""
        present = [(self._present, "chosen now")] if self._present else []
        self.call_later(
            self._take_models, found_models([*present, *self._chosen], self._used, self._access)
        )
        self.call_later(self._take_server_models, server_models())

    def _take_models(self, models: Sequence[ModelChoice]) -> None:
        self._models += models
        self.listing.count("asking servers on this machine…")
        self.listing.fill()

    def _take_server_models(self, models: Sequence[ModelChoice]) -> None:
        """Add the models of servers, before the providers whose models must be typed."""
        known = {model.spec for model in self._models}
        index = next(index for index, model in enumerate(self._models) if model.is_provider)
        self._models[index:index] = [model for model in models if model.spec not in known]
        if not models:
            self._models = [
                model._replace(about=f"{model.about}; {_NO_SERVER}")
                if model.spec == "ollama:"
                else model
                for model in self._models
            ]
        self.listing.count("")
        self.listing.fill()

    def rows(self, typed: str) -> Sequence[ModelChoice]:
        words = typed.lower().split()
        found = [
            model
            for model in self._models
            if all(word in f"{model.spec} {model.about} {model.problem}".lower() for word in words)
        ]
        found.sort(key=lambda model: not model.spec.startswith(typed))
        if typed and not any(model.spec == typed for model in self._models):
            found.append(ModelChoice(typed, "as typed"))
        return found

    def line(self, row: ModelChoice, width: int) -> Content:
        mark = (
            ("● ", "$moon")
            if row.spec == self._present
            else ("✗ ", "$bad")
            if row.problem
            else "  "
        )
        name = plain(f"{row.spec}…" if row.is_provider else row.spec)
        return Content.assemble(
            mark,
            (f"{name:<{_MODEL_WIDTH}} ", "$muted" if row.problem else ""),
            (plain(row.problem or row.about), "$muted"),
        )

    def describe(self, row: ModelChoice | None) -> Content:
        if row is None:
            return Content("")
        return (
            Content.styled(plain(row.problem), "$bad") if row.problem else Content(plain(row.about))
        )

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
