"""The list of models to choose from: those set, used before, served on this machine, or of a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import work
from textual.content import Content

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.llm.choices import (
    ConfiguredModel,
    ModelChoice,
    availability_problem,
    offered_models,
    server_models,
)
from mahtab_tui.tui.screens.listing import CURRENT_MARK, NO_MARK, ListScreen, matches_words
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.tui.live_settings import LiveSettings

_MODEL_WIDTH = 26
"""Terminal cells for a model's name, before what is said about it."""


class ModelPicker(ListScreen[str | None, ModelChoice]):
    """Lists models that can be used, and takes any other name."""

    heading_text = "Model"
    hint = "Enter chooses · any name can be typed · Esc cancels"

    def __init__(self, live: LiveSettings, current_model: str) -> None:
        """Create a list for one of the settings that name a model.

        Args:
            live: The settings, and the models that were used before.
            current_model: The setting's value; empty if it has none.
        """
        super().__init__()
        self._session = live.session
        self._current_model = current_model
        settings = live.session.settings
        configured = (
            ConfiguredModel(current_model, "chosen now"),
            ConfiguredModel(settings.sub_model or "", "set as sub_model"),
            ConfiguredModel(settings.reflection_model or "", "set as reflection_model"),
        )
        self._configured = [model for model in configured if model.spec]
        self._used_names = live.used_models
        self._access = settings.model_access()
        self._models: list[ModelChoice] = []
        self._fetcher = Fetcher(self)

    def on_mount(self) -> None:
        self.show_count("looking…")
        find = partial(offered_models, self._configured, self._used_names, self._access)
        self._fetcher.run("offered models", find, self._show_offered_models, self._show_problem)

    def _show_offered_models(self, models: Sequence[ModelChoice]) -> None:
        """List the models that are known without asking a server, then ask for what takes longer."""
        self._models += models
        self.fill()
        self._ask_servers()
        if self._current_model and self._current_model == self._session.model:
            self._ask_for_loop()

    def _ask_servers(self) -> None:
        """Ask the servers on this machine for their models."""
        self.show_count("asking servers on this machine…")
        self._fetcher.run(
            "server models", server_models, self._add_server_models, self._show_problem
        )

    def _ask_for_loop(self) -> None:
        """Find out whether the model of the session works in steps or is led like a small one."""
        describe_loop = self._session.agent.describe_loop
        self._fetcher.run(
            "loop", describe_loop, self._add_loop_description, self._show_loop_problem
        )

    def _show_problem(self, sentence: str) -> None:
        """Say that some models could not be found out."""
        self.show_count("")
        self.show_status(f"The list is not complete. {sentence}")

    def _show_loop_problem(self, sentence: str) -> None:
        """Say that it could not be found out how the model works."""
        self.show_status(f"How the model is led is not known. {sentence}")

    def _add_server_models(self, models: Sequence[ModelChoice]) -> None:
        """Insert the models of local servers before the providers, whose models are not listed."""
        listed_specs = {model.spec for model in self._models}
        new_models = [model for model in models if model.spec not in listed_specs]
        provider_indexes = (i for i, model in enumerate(self._models) if model.is_provider)
        first_provider = next(provider_indexes, len(self._models))
        self._models[first_provider:first_provider] = new_models
        self.show_count("")
        self.fill()

    def _add_loop_description(self, loop_description: str) -> None:
        """Show behind the current model how it works.

        Args:
            loop_description: Empty if there is nothing to say.
        """
        if not loop_description:
            return
        for index, model in enumerate(self._models):
            if model.spec == self._current_model:
                about = f"{model.about} · {loop_description}"
                self._models[index] = model._replace(about=about)
        self.fill()

    def row_identity(self, row: ModelChoice) -> str:
        return row.spec

    def find_rows(self, typed: str) -> Sequence[ModelChoice]:
        matches = []
        for model in self._models:
            if matches_words(typed, f"{model.spec} {model.about} {model.problem}"):
                matches.append(model)
        # Names that begin with the typed text come first; the sort keeps the order otherwise.
        lower_typed = typed.lower()
        matches.sort(key=lambda model: not model.spec.lower().startswith(lower_typed))
        if typed and all(model.spec != typed for model in self._models):
            matches.append(ModelChoice(typed, "as typed"))
        return matches

    def line(self, row: ModelChoice, width: int) -> Content:
        if row.spec == self._current_model:
            mark = CURRENT_MARK
        elif row.problem:
            mark = ("✗ ", "$bad")
        else:
            mark = NO_MARK
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
            # The user goes on to type the model's name.
            self.set_text(row.spec)
            return
        problem = row.problem
        if not problem:
            problem = await asyncio.to_thread(availability_problem, row.spec, self._access)
        if problem:
            self.show_status(problem)
        elif self.is_current:  # else the user has left the list meanwhile
            self.dismiss(row.spec)
