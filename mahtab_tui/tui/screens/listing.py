"""The base class of lists, and lists of models, kernels, themes and earlier inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

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
from mahtab_tui.kernel.base import KernelError, KernelInfo
from mahtab_tui.kernel.detached import waiting_kernels
from mahtab_tui.kernel.launch import find_environments, find_kernelspecs
from mahtab_tui.llm.providers import ModelChoice, availability_problem, found_models, server_models
from mahtab_tui.session.kernel import check_address, waiting_remote_kernels
from mahtab_tui.store.database import History, HistoryEntry
from mahtab_tui.tui.commands import COMMANDS
from mahtab_tui.tui.commands.command import Command
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.pasting import clean
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.screens.dialog import Dialog, ask, dialog_box
from mahtab_tui.tui.textual_fixes import Options
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.tui.commands.command import CommandContext

Row = TypeVar("Row")
CURRENT, OTHER = ("● ", "$moon"), ("  ", "")


class ListScreen(Dialog[ScreenResultType], Generic[ScreenResultType, Row]):
    """A filterable list; Enter or a click acts on a row."""

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
        self._line.value, self._line.cursor_position = text, len(text)

    @property
    def chosen(self) -> Row | None:
        return None if (row := self._options.highlighted) is None else self.rows[row]

    def fill(self, cursor: int | None = None) -> None:
        """Fill the list again. cursor: the row to move to; by default it stays on its line."""
        chosen_row = self._options.highlighted if cursor is None else cursor
        self.rows = self.find_rows(self.typed)
        width = max(1, self._options.scrollable_content_region.width)
        self._options.set_options([Option(self.line(row, width)) for row in self.rows])
        self._options.highlighted = min(chosen_row or 0, len(self.rows) - 1) if self.rows else None
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
        if self.rows:
            row = (self._options.highlighted or 0) + step
            row = row % len(self.rows) if abs(step) == 1 else max(0, min(row, len(self.rows) - 1))
            self._options.highlighted = row


def matches_words(typed: str, text: str) -> bool:
    return all(word in text.lower() for word in typed.lower().split())


class ChooseOne(ListScreen[str | None, str]):
    hint = "Enter chooses · ↑ ↓ move · Esc cancels"

    def __init__(self, title: str, values: Sequence[str], present: str) -> None:
        super().__init__()
        self.heading_text = title
        self._values = values
        self._current = present

    def on_mount(self) -> None:
        current = self._values.index(self._current) if self._current in self._values else 0
        self.call_after_refresh(self.fill, current)

    def find_rows(self, typed: str) -> Sequence[str]:
        return [value for value in self._values if typed.lower() in value.lower()]

    def line(self, row: str, width: int) -> Content:
        return Content.assemble(CURRENT if row == self._current else OTHER, one_line(row))


class ChooseTheme(ChooseOne):
    def __init__(self, themes: Sequence[str], present: str) -> None:
        super().__init__("Theme", themes, present)

    def describe(self, row: str | None) -> Content:
        if row is not None and row != self.app.theme:
            self.app.theme = row
        return Content("A preview of the theme.") if row else super().describe(row)

    def action_leave(self) -> None:
        self.app.theme = self._current
        super().action_leave()


def short_path(path: str, project: Path) -> str:
    for folder, short in ((project, "."), (Path.home(), "~")):
        if path.startswith(f"{folder}/"):
            return f"{short}{path.removeprefix(str(folder))}"
    return path


_TITLE_WIDTH, _KEYS_WIDTH = 20, 16


class CommandPalette(ListScreen[str | None, Command]):
    heading_text = "Commands"
    hint = "Enter runs it · ↑ ↓ choose · Esc cancels"

    def find_rows(self, typed: str) -> Sequence[Command]:
        return [each for each in COMMANDS if matches_words(typed, f"{each.title} {each.help}")]

    def line(self, row: Command, width: int) -> Content:
        keys = self.app._keymap.get(row.id, row.keys)
        return Content.assemble(
            f"{row.title:<{_TITLE_WIDTH}} ",
            (f"{keys:<{_KEYS_WIDTH}} ", "$accent"),
            (row.help, "$muted"),
        )

    def describe(self, row: Command | None) -> Content:
        return Content(row.help) if row else super().describe(row)

    def choose(self, row: Command) -> None:
        self.dismiss(row.action)


_MODEL_WIDTH = 26


class ModelPicker(ListScreen[str | None, ModelChoice]):
    heading_text = "Model"
    hint = "Enter chooses · any name can be typed · Esc cancels"

    def __init__(
        self,
        present: str,
        chosen: Sequence[tuple[str, str]],
        used: Sequence[str],
        access: Mapping[str, Any],
    ) -> None:
        """present: the current model, or empty. The others: arguments of `found_models`."""
        super().__init__()
        self._current = present
        self._known = [*([(present, "chosen now")] if present else []), *chosen], used
        self._access = access
        self._models: list[ModelChoice] = []

    def on_mount(self) -> None:
        self.show_count("looking…")
        fetcher = Fetcher(self)

        def show(models: Sequence[ModelChoice]) -> None:
            self._models += models
            self.show_count("asking servers on this machine…")
            self.fill()
            fetcher.ask("models", server_models, self._add_server_models)

        fetcher.ask("models", lambda: found_models(*self._known, self._access), show)

    def _add_server_models(self, models: Sequence[ModelChoice]) -> None:
        known = {model.spec for model in self._models}
        index = next(index for index, model in enumerate(self._models) if model.is_provider)
        self._models[index:index] = [model for model in models if model.spec not in known]
        self.show_count("")
        self.fill()

    def find_rows(self, typed: str) -> Sequence[ModelChoice]:

        def matches(model: ModelChoice) -> bool:
            return matches_words(typed, f"{model.spec} {model.about} {model.problem}")

        found = list(filter(matches, self._models))
        found.sort(key=lambda model: not model.spec.startswith(typed))
        if typed and all(model.spec != typed for model in self._models):
            found.append(ModelChoice(typed, "as typed"))
        return found

    def line(self, row: ModelChoice, width: int) -> Content:
        mark = CURRENT if row.spec == self._current else ("✗ ", "$bad") if row.problem else OTHER
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
            self.set_text(row.spec)
            return
        find = partial(availability_problem, row.spec, self._access)
        if problem := row.problem or await asyncio.to_thread(find):
            self.show_status(problem)
        elif self.is_current:
            self.dismiss(row.spec)


_KERNEL_WIDTH = 34


class KernelChoice(NamedTuple):
    kind: str
    """"here", "python" (an interpreter), "address", or "session" (its waiting kernel)."""
    name: str
    about: str


class KernelPicker(ListScreen[KernelChoice | None, KernelChoice]):
    heading_text = "Kernel"
    hint = "Enter switches · or type ssh://host · Esc cancels"

    def __init__(self, present: KernelChoice, find: Callable[[], Sequence[KernelChoice]]) -> None:
        super().__init__()
        self._current = present
        self._find_others = find
        self._found: Sequence[KernelChoice] = (present,)

    def on_mount(self) -> None:
        self.show_count("looking…")
        Fetcher(self).ask("kernels", self._find_others, self._show)

    def _show(self, found: Sequence[KernelChoice]) -> None:
        self._found = [self._current, *(each for each in found if each[:2] != self._current[:2])]
        self.show_count("")
        self.fill()

    def find_rows(self, typed: str) -> Sequence[KernelChoice]:
        found = [each for each in self._found if matches_words(typed, f"{each.name} {each.about}")]
        if typed and all(each.name != typed for each in self._found):
            found.append(KernelChoice("address", typed, "as typed"))
        return found

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


def choose_kernel(context: CommandContext, address: str) -> None:
    """Switch to the kernel at an address; without one, let the user choose."""
    control = context.session.kernel_control

    def chosen(choice: KernelChoice) -> None:
        match choice.kind:
            case "python":
                control.activate(choice.name)
            case "session":
                context.quit_flow.switch_to(choice.name)
            case "here":
                control.move("")
            case _:
                try:
                    check_address(choice.name)
                except KernelError as error:
                    context.app.notify(str(error), "error")
                    return
                control.move(choice.name)
                context.ui_state.remember_kernel(choice.name)

    if address:
        chosen(KernelChoice("here" if address == "here" else "address", address, ""))
        return
    info, recent = context.session.kernel.info(), context.ui_state.kernels
    version = f"Python {info.python}" if info.python else str(info.state)
    current = KernelChoice("here", "here", f"{version}, {info.executable}")
    if info.host:
        current = KernelChoice("address", info.host, version)
    ask(context.app, KernelPicker(current, lambda: list(_other_kernels(info, recent))), chosen)


def _other_kernels(info: KernelInfo, recent: tuple[str, ...]) -> Iterator[KernelChoice]:
    yield KernelChoice("here", "here", "this machine")
    if not info.host:
        for each in find_environments(Path(info.cwd), info.executable):
            yield KernelChoice("python", each.path, "an environment of this machine")
    for local in waiting_kernels():
        if not local.has_host:
            state = f"runs cell {local.cell}" if local.cell else "idle"
            yield KernelChoice("session", local.session, f"{state}: opens its session")
    for remote in waiting_remote_kernels():
        about = f"on {remote.station.label}: opens its session"
        yield KernelChoice("session", remote.session, about)
    if find_spec("jupyter_client") is not None:
        for name in find_kernelspecs():
            yield KernelChoice("address", f"jupyter:{name}", "a Jupyter kernel of this machine")
    for address in recent:
        yield KernelChoice("address", address, "used before")


PAUSE = 0.05


class SearchScreen(ListScreen[ScreenResultType, Row]):
    """Searched on a thread; a key waits for the results of the typed text, until another is
    typed."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Sequence[Row] = ()
        self.fetcher = Fetcher(self, at_once=1)
        self._searching = False
        self._waiting: list[Callable[[Row], object]] = []

    def search(self, typed: str) -> Any:
        raise NotImplementedError

    def show_found(self, found: Any, cursor: int | None) -> None:
        self.found = found
        self.fill(cursor)

    def find(self, cursor: int | None = 0, pause: float = PAUSE) -> None:
        self._searching, self._waiting = True, []

        def show(found: Any) -> None:
            self._searching = False
            self.show_found(found, cursor)
            for act in self._waiting:
                self.act_on_chosen(act)

        def fail(sentence: str) -> None:
            self._searching = False
            self.show_count("")
            self.show_status(sentence)

        self.fetcher.ask("rows", partial(self.search, self.typed), show, fail, pause=pause)

    def find_rows(self, typed: str) -> Sequence[Row]:
        return self.found

    def act_on_chosen(self, act: Callable[[Row], object]) -> None:
        if self._searching:
            self._waiting.append(act)
        elif (row := self.chosen) is not None:
            act(row)


class HistorySearch(SearchScreen[HistoryEntry | None, HistoryEntry]):
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

    def search(self, typed: str) -> list[HistoryEntry]:
        return self._history.search(typed)

    def show_found(self, found: Sequence[HistoryEntry], cursor: int | None) -> None:
        super().show_found(found, cursor)
        self.show_count(f"{len(found)} found" if found else "nothing found")

    def line(self, row: HistoryEntry, width: int) -> Content:
        query = self.typed
        first, *more = plain(row.text).expandtabs(4).split("\n")
        text = Content(first)
        position = first.lower().find(query.lower())
        if query and position >= 0:
            text = text.stylize("$moon bold", position, position + len(query))
        glyph = ("◈", "$model") if row.mode == "ask" else ("❯", "$person")
        count = f"  +{len(more)} line{'s' * (len(more) > 1)}" if more else ""
        return Content.assemble(glyph, " ", text, (count, "$muted"))

    def describe(self, row: HistoryEntry | None) -> Content:
        self._full_text.python = row is None or row.mode == "python"
        self._full_text.load_text(clean(row.text) if row else "")
        return Content("")
