"""The list of models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import work
from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.choices import ModelChoice, availability_problem, offered_models, server_models
from mahtab_tui.tui.screens.listing import CURRENT, OTHER, ListScreen, matches_words
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.tui.live_settings import LiveSettings

_MODEL_WIDTH = 26


class ModelPicker(ListScreen[str | None, ModelChoice]):
    """Lists models that can be used, and takes any other name."""

    heading_text = "Model"
    hint = "Enter chooses · any name can be typed · Esc cancels"

    def __init__(self, live: LiveSettings, current: str) -> None:
        """current: the model that the setting has now, or empty."""
        super().__init__()
        self._session = live.session
        self._current = current
        settings = live.session.settings
        self._configured = [(current, "chosen now")] if current else []
        for key in ("sub_model", "reflection_model"):
            spec = getattr(settings, key)
            if spec:
                self._configured.append((spec, f"set as {key}"))
        self._used_names = live.used_models
        self._access = settings.model_access()
        self._models: list[ModelChoice] = []

    def on_mount(self) -> None:
        self.show_count("looking…")
        fetcher = Fetcher(self)

        def show(models: Sequence[ModelChoice]) -> None:
            self._models += models
            self.show_count("asking servers on this machine…")
            self.fill()
            fetcher.ask("models", server_models, self._add_server_models)
            # The model that answers can say more about itself.
            if self._current and self._current == self._session.model:
                describe = self._session.agent.describe_loop
                fetcher.ask("current model", describe, self._add_to_current)

        find = partial(offered_models, self._configured, self._used_names, self._access)
        fetcher.ask("models", find, show)

    def _add_server_models(self, models: Sequence[ModelChoice]) -> None:
        """Insert the models of local servers before the providers, whose models are not listed."""
        listed_specs = {model.spec for model in self._models}
        new_models = [model for model in models if model.spec not in listed_specs]
        provider_indexes = (i for i, model in enumerate(self._models) if model.is_provider)
        index = next(provider_indexes, len(self._models))
        self._models[index:index] = new_models
        self.show_count("")
        self.fill()

    def _add_to_current(self, words: str) -> None:
        """Show more words about the current model."""
        for index, model in enumerate(self._models):
            if words and model.spec == self._current:
                self._models[index] = model._replace(about=f"{model.about} · {words}")
        self.fill()

    def find_rows(self, typed: str) -> Sequence[ModelChoice]:
        matches = []
        for model in self._models:
            if matches_words(typed, f"{model.spec} {model.about} {model.problem}"):
                matches.append(model)
        # Names that begin with the typed text come first; the sort keeps the order otherwise.
        matches.sort(key=lambda model: not model.spec.startswith(typed))
        if typed and all(model.spec != typed for model in self._models):
            matches.append(ModelChoice(typed, "as typed"))
        return matches

    def line(self, row: ModelChoice, width: int) -> Content:
        if row.spec == self._current:
            mark = CURRENT
        elif row.problem:
            mark = ("✗ ", "$bad")
        else:
            mark = OTHER
        name = plain(f"{row.spec}…" if row.is_provider else row.spec)
        return Content.assemble(
            mark,
            (f"{name:<{_MODEL_WIDTH}} ", "$muted" if row.problem else ""),
            (plain(row.problem or row.about), "$muted"),
        )

    def describe(self, row: ModelChoice | None) -> Content:
        if row is None:
            return Content("")
        return Content.styled(plain(row.problem or row.about), "$bad" if row.problem else "")

    @work(exclusive=True)
    async def choose(self, row: ModelChoice) -> None:
        if row.is_provider and not row.problem:
            # The name of the model is typed behind the provider's.
            self.set_text(row.spec)
            return
        problem = row.problem
        if not problem:
            problem = await asyncio.to_thread(availability_problem, row.spec, self._access)
        if problem:
            self.show_status(problem)
        elif self.is_current:
            self.dismiss(row.spec)
