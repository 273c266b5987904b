"""Lists of models, kernels, themes, commands and earlier inputs, of which the user chooses one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import BindingType
from textual.content import Content

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.values import KernelInfo
from mahtab_tui.llm.choices import ModelChoice, availability_problem, offered_models, server_models
from mahtab_tui.store.input_history import History, HistoryEntry
from mahtab_tui.tui.commands.declarations import PaneCommand
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.pasting import clean
from mahtab_tui.tui.kernel_choices import KernelChoice, current_kernel, other_kernels
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.tui.live_settings import LiveSettings
from mahtab_tui.tui.screens.listing import CURRENT, OTHER, ListScreen, SearchScreen, matches_words

_TITLE_WIDTH = 20
_KEYS_WIDTH = 16
_MODEL_WIDTH = 26
_KERNEL_WIDTH = 34


class ChooseOne(ListScreen[str | None, str]):
    """Lets the user choose one of several values."""

    hint = "Enter chooses · ↑ ↓ move · Esc cancels"

    def __init__(self, title: str, values: Sequence[str], current: str) -> None:
        super().__init__()
        self.heading_text = title
        self._values = values
        self._current = current

    def on_mount(self) -> None:
        cursor = 0
        if self._current in self._values:
            cursor = self._values.index(self._current)
        self.call_after_refresh(self.fill, cursor)

    def find_rows(self, typed: str) -> Sequence[str]:
        return [value for value in self._values if typed.lower() in value.lower()]

    def line(self, row: str, width: int) -> Content:
        return Content.assemble(CURRENT if row == self._current else OTHER, one_line(row))


class ChooseTheme(ChooseOne):
    """Lets the user choose a theme; the whole screen previews it."""

    def __init__(self, themes: Sequence[str], current: str) -> None:
        super().__init__("Theme", themes, current)

    def describe(self, row: str | None) -> Content:
        if row is None:
            return super().describe(row)
        # The whole application is the preview.
        if row != self.app.theme:
            self.app.theme = row
        return Content("A preview of the theme.")

    def action_leave(self) -> None:
        self.app.theme = self._current
        super().action_leave()


class CommandPalette(ListScreen[str | None, PaneCommand]):
    """Lists commands."""

    heading_text = "Commands"
    hint = "Enter runs it · ↑ ↓ choose · Esc cancels"

    def __init__(self, commands: Sequence[PaneCommand]) -> None:
        super().__init__()
        self._commands = commands

    def find_rows(self, typed: str) -> Sequence[PaneCommand]:
        return [
            command
            for command in self._commands
            if matches_words(typed, f"{command.title} {command.help}")
        ]

    def line(self, row: PaneCommand, width: int) -> Content:
        keys = self.app._keymap.get(row.id, row.keys)
        return Content.assemble(
            f"{row.title:<{_TITLE_WIDTH}} ",
            (f"{keys:<{_KEYS_WIDTH}} ", "$accent"),
            (row.help, "$muted"),
        )

    def describe(self, row: PaneCommand | None) -> Content:
        if row:
            return Content(row.help)
        return super().describe(row)

    def choose(self, row: PaneCommand) -> None:
        self.dismiss(row.action)


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


class KernelPicker(ListScreen[KernelChoice | None, KernelChoice]):
    """Lists kernels, and takes an address."""

    heading_text = "Kernel"
    hint = "Enter switches · or type ssh://host · Esc cancels"

    def __init__(self, info: KernelInfo, recent: Sequence[str]) -> None:
        """info: of the present kernel. recent: addresses that were used before."""
        super().__init__()
        self._info = info
        self._recent = recent
        self._current = current_kernel(info)
        self._choices: Sequence[KernelChoice] = (self._current,)

    def on_mount(self) -> None:
        self.show_count("looking…")
        find = partial(other_kernels, self._info, self._recent)
        Fetcher(self).ask("kernels", find, self._show)

    def _show(self, choices: Iterable[KernelChoice]) -> None:
        current = self._current
        others = [
            choice
            for choice in choices
            if (choice.kind, choice.name) != (current.kind, current.name)
        ]
        self._choices = [current, *others]
        self.show_count("")
        self.fill()

    def find_rows(self, typed: str) -> Sequence[KernelChoice]:
        matches = [
            choice
            for choice in self._choices
            if matches_words(typed, f"{choice.name} {choice.about}")
        ]
        if typed and all(choice.name != typed for choice in self._choices):
            matches.append(KernelChoice("address", typed, "as typed"))
        return matches

    def line(self, row: KernelChoice, width: int) -> Content:
        return Content.assemble(
            CURRENT if row == self._current else OTHER,
            f"{plain(one_line(row.name)):<{_KERNEL_WIDTH}} ",
            (plain(one_line(row.about)), "$muted"),
        )

    def describe(self, row: KernelChoice | None) -> Content:
        return Content("" if row is None else plain(row.about))

    def choose(self, row: KernelChoice) -> None:
        if row == self._current:
            self.show_status("This kernel is in use.")
        else:
            self.dismiss(row)


class HistorySearch(SearchScreen[HistoryEntry | None, HistoryEntry, Sequence[HistoryEntry]]):
    """Searches the inputs of all sessions."""

    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+r", "move(-1)", "Up")]

    heading_text = "History"
    hint = "Enter edits it · ↑ ↓ choose · Esc cancels"
    placeholder = "type to search"

    def __init__(self, history: History) -> None:
        super().__init__()
        self.below = self._full_text = CodeArea(id="whole")
        self._full_text.can_focus = False
        self._full_text.read_only = True
        self._history = history

    def on_mount(self) -> None:
        self.find()

    def search(self, query: str) -> list[HistoryEntry]:
        return self._history.search(query)

    def show_results(self, results: Sequence[HistoryEntry], cursor: int | None) -> None:
        self.hits = results
        self.fill(cursor)
        self.show_count(f"{len(results):,} found" if results else "nothing found")

    def line(self, row: HistoryEntry, width: int) -> Content:
        """Show the first line of an input, with the query highlighted."""
        query = self.typed
        first_line, *other_lines = plain(row.text).expandtabs(4).split("\n")
        text = Content(first_line)
        position = first_line.lower().find(query.lower())
        if query and position >= 0:
            text = text.stylize("$highlight bold", position, position + len(query))

        glyph = ("◈", "$model") if row.mode == "ask" else ("❯", "$person")
        count = ""
        if other_lines:
            plural = "s" if len(other_lines) > 1 else ""
            count = f"  +{len(other_lines):,} line{plural}"
        return Content.assemble(glyph, " ", text, (count, "$muted"))

    def describe(self, row: HistoryEntry | None) -> Content:
        self._full_text.python = row is None or row.mode == "python"
        self._full_text.load_text(clean(row.text) if row else "")
        return Content("")
