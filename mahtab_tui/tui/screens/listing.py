"""The base class of lists, and lists of models, kernels, themes and earlier inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.screen import ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.values import KernelInfo
from mahtab_tui.llm.choices import ModelChoice, availability_problem, offered_models, server_models
from mahtab_tui.store.input_history import History, HistoryEntry
from mahtab_tui.tui.commands.declarations import PaneCommand
from mahtab_tui.tui.dialog import Dialog, dialog_box
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.pasting import clean
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.kernel_choices import KernelChoice, current_kernel, other_kernels
from mahtab_tui.tui.widgets.options import Options
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.tui.live_settings import LiveSettings

Row = TypeVar("Row")
Results = TypeVar("Results")

# The mark before a row, and its style.
CURRENT = ("● ", "$highlight")
OTHER = ("  ", "")
_TITLE_WIDTH = 20
_KEYS_WIDTH = 16
_MODEL_WIDTH = 26
_KERNEL_WIDTH = 34
SEARCH_DELAY_S = 0.05
"""Seconds without another key after which a search starts."""


class ListScreen(Dialog[ScreenResultType], Generic[ScreenResultType, Row]):
    """A filterable list; Enter or a click acts on a row.

    A subclass says which rows match (`find_rows`), how they look (`line`), what stands below the
    list (`describe`), and what Enter does (`choose`).
    """

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (as Textual types it)
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Leave"),
        ("enter", "select", "Select"),  # while the widget beside the list has the focus
        ("down,ctrl+n", "move(1)", "Down"),
        ("up,ctrl+p", "move(-1)", "Up"),
        ("pagedown", "move(10)", "Page down"),
        ("pageup", "move(-10)", "Page up"),
    ]

    heading_text: str
    hint: str
    placeholder = "type to filter"
    box_classes = "large listing"

    def __init__(self) -> None:
        super().__init__()
        self._count_line = Static(classes="listing-count", markup=False)
        self._count_line.display = False
        self.rows: Sequence[Row] = ()
        self._line = LineInput(placeholder=self.placeholder, compact=True)
        self._options = Options(compact=True, markup=False)
        self._options.can_focus = False
        self.companion: Widget | None = None
        """Beside the list, such as a preview."""
        self.below: Widget = Static(classes="listing-about", markup=False)

    def compose(self) -> ComposeResult:
        with dialog_box(self.heading_text, self.box_classes):
            yield self._count_line
            yield self._line
            with Container(classes="listing-body"):
                yield self._options
                if self.companion is not None:
                    yield self.companion
            yield self.below
            yield Static(classes="listing-said", markup=False)
            yield Static(self.hint, classes="quiet", markup=False)

    def find_rows(self, typed: str) -> Sequence[Row]:
        raise NotImplementedError

    def line(self, row: Row, width: int) -> Content:
        raise NotImplementedError

    def describe(self, row: Row | None) -> Content:
        return Content("Nothing matches." if row is None else "")

    def choose(self, row: Row) -> object:
        return self.dismiss(row)  # type: ignore[arg-type]

    def action_select(self) -> None:
        self.act_on_chosen(self.choose)

    def find(self) -> None:
        self.fill(0)

    def act_on_chosen(self, act: Callable[[Row], object]) -> None:
        if (row := self.chosen) is not None:
            act(row)

    def action_act(self, name: str) -> None:
        self.act_on_chosen(getattr(self, name))

    @property
    def typed(self) -> str:
        return self._line.value.strip()

    def set_text(self, text: str) -> None:
        self._line.value = text
        self._line.cursor_position = len(text)

    @property
    def chosen(self) -> Row | None:
        index = self._options.highlighted
        return None if index is None else self.rows[index]

    def fill(self, cursor: int | None = None) -> None:
        """Fill the list again. cursor: the row to move to; by default it stays on its line."""
        new_cursor = self._options.highlighted if cursor is None else cursor
        self.rows = self.find_rows(self.typed)
        width = max(1, self._options.scrollable_content_region.width)
        self._options.set_options([Option(self.line(row, width)) for row in self.rows])
        if self.rows:
            self._options.highlighted = min(new_cursor or 0, len(self.rows) - 1)
        else:
            self._options.highlighted = None
        self._describe()

    def _describe(self) -> None:
        description = self.describe(self.chosen)
        if isinstance(self.below, Static):
            self.below.update(description)

    def show_count(self, text: str) -> None:
        self._count_line.update(Content(text))
        self._count_line.display = bool(text)

    def show_status(self, text: str, style: str = "$bad") -> None:
        self.query_one(".listing-said", Static).update(Content.styled(plain(text), style))

    def on_resize(self) -> None:
        self.call_after_refresh(self.fill)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.show_status("")
        self.find()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _select(self, event: Input.Submitted | OptionList.OptionSelected) -> None:
        event.stop()
        self.action_select()

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._describe()

    def action_move(self, step: int) -> None:
        if not self.rows:
            return
        index = (self._options.highlighted or 0) + step
        # Single steps go around; a page stops at the ends.
        if abs(step) == 1:
            index %= len(self.rows)
        else:
            index = max(0, min(index, len(self.rows) - 1))
        self._options.highlighted = index


def matches_words(typed: str, text: str) -> bool:
    return all(word in text.lower() for word in typed.lower().split())


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


def short_path(path: str, project: Path) -> str:
    """Abbreviate a path below the project or the home folder."""
    abbreviations = ((project, "."), (Path.home(), "~"))
    for folder, abbreviation in abbreviations:
        if path.startswith(f"{folder}/"):
            return f"{abbreviation}{path.removeprefix(str(folder))}"
    return path


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


class SearchScreen(ListScreen[ScreenResultType, Row], Generic[ScreenResultType, Row, Results]):
    """Searched on a thread; a key waits for the results of the typed text, until another is
    typed."""

    def __init__(self) -> None:
        super().__init__()
        self.hits: Sequence[Row] = ()
        self.fetcher = Fetcher(self, at_once=1)
        self._searching = False
        self._waiting_actions: list[Callable[[Row], object]] = []

    def search(self, query: str) -> Results:
        """Called on a thread."""
        raise NotImplementedError

    def show_results(self, results: Results, cursor: int | None) -> None:
        """Set `hits`, and fill the list."""
        raise NotImplementedError

    def find(self, cursor: int | None = 0, pause: float = SEARCH_DELAY_S) -> None:
        self._searching = True
        self._waiting_actions = []

        def show(results: Results) -> None:
            self._searching = False
            self.show_results(results, cursor)
            for act in self._waiting_actions:
                self.act_on_chosen(act)

        def fail(sentence: str) -> None:
            self._searching = False
            self.show_count("")
            self.show_status(sentence)

        self.fetcher.ask("rows", partial(self.search, self.typed), show, fail, pause=pause)

    def find_rows(self, typed: str) -> Sequence[Row]:
        return self.hits

    def act_on_chosen(self, act: Callable[[Row], object]) -> None:
        if self._searching:
            self._waiting_actions.append(act)
        elif (row := self.chosen) is not None:
            act(row)


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
