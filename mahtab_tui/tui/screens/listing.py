"""The base class of pickers, and pickers of models, kernels, themes and earlier inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.events import Resize
from textual.screen import ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.kernel.base import KernelError, KernelInfo
from mahtab_tui.kernel.detached import waiting_kernels
from mahtab_tui.kernel.launch import find_environments, find_kernelspecs
from mahtab_tui.llm.providers import ModelChoice, availability_problem, found_models, server_models
from mahtab_tui.session.kernel import check_address
from mahtab_tui.session.kernel_control import waiting_remote_kernels
from mahtab_tui.store.history import History, HistoryEntry
from mahtab_tui.tui.editor.code_area import CodeArea
from mahtab_tui.tui.editor.pasting import clean
from mahtab_tui.tui.find import LineInput
from mahtab_tui.tui.screens.dialog import Dialog, ask
from mahtab_tui.tui.textual_fixes import Options, ignores_removed
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.tui.commands.command import CommandContext

Row = TypeVar("Row")


class ListScreen(Dialog[ScreenResultType], Generic[ScreenResultType, Row]):
    """A screen with a list. Subclasses define the rows and what is shown about them."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    listing: Listing[Row]

    def compose(self) -> ComposeResult:
        yield self.listing

    def rows(self, typed: str) -> Sequence[Row]:
        """Return the rows that match the typed text."""
        raise NotImplementedError

    def line(self, row: Row, width: int) -> Content:
        """Format a row as one line."""
        raise NotImplementedError

    def heading(self, row: Row) -> str:
        """Return the heading of a row's group; empty for none."""
        return ""

    def describe(self, row: Row | None) -> Content:
        """Return the text below the list about the row at the cursor; None if there is no row."""
        return Content("")

    def find(self) -> object:
        """Show the matching rows; called when the typed text changes."""
        self.listing.fill(0)
        return None

    def take(self) -> object:
        """Act on the row at the cursor; called by Enter and by a click."""
        raise NotImplementedError

    def action_take(self) -> None:
        self.take()


@ignores_removed
class Listing(Vertical, Generic[Row]):
    """A filterable list: typing filters, the arrows move the cursor, Enter or a click selects the
    row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("down,ctrl+n", "move(1)", "Down"),
        ("up,ctrl+p", "move(-1)", "Up"),
        ("pagedown", "move(10)", "Page down"),
        ("pageup", "move(-10)", "Page up"),
    ]

    def __init__(
        self,
        source: ListScreen[Any, Row],
        title: str,
        hint: str,
        placeholder: str = "type to filter",
        *,
        side: Widget | None = None,
        below: Widget | None = None,
    ) -> None:
        """side, below: widgets beside and below the list that show the row at the cursor; by
        default its description is shown below."""
        super().__init__(classes="dialog large listing")
        self.rows: Sequence[Row] = ()
        self._source = source
        self._title, self._hint = title, hint
        self._line = LineInput(placeholder=placeholder, compact=True)
        self._options = Options(compact=True, markup=False)
        self._options.can_focus = False
        self._side, self._below = side, below
        self._description = Static(classes="listing-about", markup=False)
        self._rows: list[int] = []
        """The index of each row among the options, which include headings."""

    def compose(self) -> ComposeResult:
        with Horizontal(classes="listing-title"):
            yield Static(one_line(self._title), markup=False)
            yield Static(classes="listing-count", markup=False)
        yield self._line
        with Container(classes="listing-body"):
            yield self._options
            if self._side is not None:
                yield self._side
        yield self._below or self._description
        yield Static(classes="listing-said", markup=False)
        yield Static(self._hint, classes="quiet", markup=False)

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.fill)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.show_status("")
        self._source.find()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _select(self, event: Input.Submitted | OptionList.OptionSelected) -> None:
        event.stop()
        self._source.take()

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._describe()

    @property
    def typed(self) -> str:
        return self._line.value

    def set_text(self, text: str) -> None:
        self._line.value, self._line.cursor_position = text, len(text)

    @property
    def chosen(self) -> Row | None:
        row = self._row
        return None if row is None else self.rows[row]

    @property
    def _row(self) -> int | None:
        """The index of the row at the cursor."""
        highlighted = self._options.highlighted
        return self._rows.index(highlighted) if highlighted in self._rows else None

    def fill(self, cursor: int | None = None) -> None:
        """Fill the list again. cursor: the index of the row to move to; by default the cursor stays
        on its line."""
        chosen_row = self._row if cursor is None else cursor
        self.rows, self._rows = self._source.rows(self.typed.strip()), []
        width = max(1, self._options.scrollable_content_region.width)
        options: list[Option] = []
        heading = ""
        for row in self.rows:
            if (other := self._source.heading(row)) != heading:
                heading = other
                options.append(
                    Option(Content.styled(heading, "bold $primary").truncate(width), disabled=True)
                )
            self._rows.append(len(options))
            options.append(Option(self._source.line(row, width).truncate(width, ellipsis=True)))
        self._options.set_options(options)
        self._options.highlighted = (
            self._rows[min(chosen_row or 0, len(self.rows) - 1)] if self.rows else None
        )
        self._describe()

    def _describe(self) -> None:
        self._description.update(self._source.describe(self.chosen))

    def show_count(self, text: str) -> None:
        """Show a text at the end of the title, such as the number of matches."""
        self.query_one(".listing-count", Static).update(Content(text))

    def show_status(self, text: str, style: str = "$bad") -> None:
        """Show the outcome of an action below the list."""
        self.query_one(".listing-said", Static).update(Content.styled(plain(text), style))

    def action_move(self, step: int) -> None:
        if self.rows:
            row = (self._row or 0) + step
            row = row % len(self.rows) if abs(step) == 1 else max(0, min(row, len(self.rows) - 1))
            self._options.highlighted = self._rows[row]


class ChooseOne(ListScreen[str | None, str]):
    """Lets the user pick a value; returns it, or None after Escape."""

    def __init__(self, title: str, values: Sequence[str], present: str) -> None:
        super().__init__()
        self.listing = Listing(self, title, "Enter chooses · ↑ ↓ move · Esc cancels")
        self._values = values
        self._current = present

    def on_mount(self) -> None:
        self.call_after_refresh(
            self.listing.fill,
            self._values.index(self._current) if self._current in self._values else 0,
        )

    def rows(self, typed: str) -> Sequence[str]:
        return [value for value in self._values if typed.lower() in value.lower()]

    def line(self, row: str, width: int) -> Content:
        return Content.assemble(("● " if row == self._current else "  ", "$moon"), one_line(row))

    def describe(self, row: str | None) -> Content:
        return Content("" if row is not None else "Nothing matches.")

    def take(self) -> None:
        if self.listing.chosen is not None:
            self.dismiss(self.listing.chosen)


class ChooseTheme(ChooseOne):
    """Previews each theme at once, and marks the current one. Escape restores it."""

    def __init__(self, themes: Sequence[str], present: str) -> None:
        super().__init__("Theme", themes, present)

    def describe(self, row: str | None) -> Content:
        if row is not None and row != self.app.theme:
            self.app.theme = row
        return Content("Nothing matches." if row is None else "A preview of the theme.")

    def action_leave(self) -> None:
        self.app.theme = self._current
        super().action_leave()


def short_path(path: str, project: Path) -> str:
    """Abbreviate the project's folder to `.` and the home folder to `~`."""
    for folder, short in ((project, "."), (Path.home(), "~")):
        if path.startswith(f"{folder}/"):
            return f"{short}{path.removeprefix(str(folder))}"
    return path


_MODEL_WIDTH = 26
"""Columns for a model's name."""
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
        """present: the model to replace; empty for none. The other arguments are those of
        `available.found_models`."""
        super().__init__()
        self.listing = Listing(self, "Model", "Enter chooses · any name can be typed · Esc cancels")
        self._current = present
        self._chosen = chosen
        self._recent = used
        self._access = access
        self._models: list[ModelChoice] = []
        self._fetcher = Fetcher(self)

    def on_mount(self) -> None:
        self.listing.show_count("looking…")
        present = [(self._current, "chosen now")] if self._current else []
        self._fetcher.ask(
            "models",
            lambda: found_models([*present, *self._chosen], self._recent, self._access),
            self._add_models,
        )

    def _add_models(self, models: Sequence[ModelChoice]) -> None:
        self._models += models
        self.listing.show_count("asking servers on this machine…")
        self.listing.fill()
        self._fetcher.ask("models", server_models, self._add_server_models)

    def _add_server_models(self, models: Sequence[ModelChoice]) -> None:
        """Add the models of servers, above the providers whose models must be typed."""
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
        self.listing.show_count("")
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
            if row.spec == self._current
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
            self.listing.show_status(row.problem)
        elif row.is_provider:
            self.listing.set_text(row.spec)
        else:
            self._try(row.spec)

    @work(exclusive=True)
    async def _try(self, spec: str) -> None:
        problem = await asyncio.to_thread(availability_problem, spec, self._access)
        if not self.is_current:
            return
        if problem:
            self.listing.show_status(problem)
        else:
            self.dismiss(spec)


_KERNEL_WIDTH = 34
"""Columns for a kernel's name."""


class KernelChoice(NamedTuple):
    """A kernel to switch to."""

    kind: str
    """One of "here", "python" (an interpreter), "address", and "session" (the waiting kernel of a
    session)."""
    name: str
    """The interpreter, the address, or the session's id."""
    about: str


class KernelPicker(ListScreen[KernelChoice | None, KernelChoice]):
    """Returns a kernel, or None after Escape. Any address can be typed."""

    def __init__(self, present: KernelChoice, find: Callable[[], Sequence[KernelChoice]]) -> None:
        """present: the current kernel. find: returns the other kernels; waits."""
        super().__init__()
        self.listing = Listing(self, "Kernel", "Enter switches · or type ssh://host · Esc cancels")
        self._current = present
        self._find = find
        self._found: Sequence[KernelChoice] = (present,)

    def on_mount(self) -> None:
        self.listing.show_count("looking…")
        Fetcher(self).ask("kernels", self._find, self._show)

    def _show(self, found: Sequence[KernelChoice]) -> None:
        self._found = [self._current, *(each for each in found if each[:2] != self._current[:2])]
        self.listing.show_count("")
        self.listing.fill()

    def rows(self, typed: str) -> Sequence[KernelChoice]:
        words = typed.lower().split()
        found = [
            each
            for each in self._found
            if all(word in f"{each.name} {each.about}".lower() for word in words)
        ]
        if typed and not any(each.name == typed for each in self._found):
            found.append(KernelChoice("address", typed, "as typed"))
        return found

    def line(self, row: KernelChoice, width: int) -> Content:
        mark = ("● ", "$moon") if row == self._current else "  "
        return Content.assemble(
            mark,
            f"{plain(one_line(row.name)):<{_KERNEL_WIDTH}} ",
            (plain(one_line(row.about)), "$muted"),
        )

    def describe(self, row: KernelChoice | None) -> Content:
        return Content("" if row is None else plain(row.about))

    def take(self) -> None:
        row = self.listing.chosen
        if row is None:
            return
        if row == self._current:
            self.listing.show_status("This kernel is in use.")
        else:
            self.dismiss(row)


def choose_kernel(context: CommandContext, address: str) -> None:
    """Switch to the kernel at an address; without one, let the user choose."""

    def chosen(choice: KernelChoice) -> None:
        if choice.kind == "python":
            context.session.kernel_control.activate(choice.name)
        elif choice.kind == "session":
            context.quit_flow.switch_to(choice.name, back="/kernel")
        elif choice.kind == "here":
            context.session.kernel_control.move("")
        else:
            try:
                check_address(choice.name)
            except KernelError as error:
                context.app.notify(str(error), "error")
                return
            context.session.kernel_control.move(choice.name)
            context.ui_state.remember_kernel(choice.name)

    if address:
        chosen(KernelChoice("here" if address == "here" else "address", address, ""))
        return
    info, recent = context.session.kernel.info(), context.ui_state.kernels
    ask(
        context.app,
        KernelPicker(_current_kernel(info), lambda: _other_kernels(info, recent)),
        chosen,
    )


def _current_kernel(info: KernelInfo) -> KernelChoice:
    version = f"Python {info.python}" if info.python else str(info.state)
    return (
        KernelChoice("address", info.host, version)
        if info.host
        else KernelChoice("here", "here", f"{version}, {info.executable}")
    )


def _other_kernels(info: KernelInfo, recent: tuple[str, ...]) -> list[KernelChoice]:
    found = [KernelChoice("here", "here", "this machine")]
    if not info.host:
        found += [
            KernelChoice("python", each.path, "an environment of this machine")
            for each in find_environments(Path(info.cwd), info.executable)
        ]
    waits = [each for each in waiting_kernels() if not each.has_host]
    found += [
        KernelChoice(
            "session",
            each.session,
            f"{f'runs cell {each.cell}' if each.cell else 'idle'}: opens its session",
        )
        for each in waits
    ]
    found += [
        KernelChoice("session", each.session, f"on {each.station.label}: opens its session")
        for each in waiting_remote_kernels()
    ]
    if find_spec("jupyter_client") is not None:
        found += [
            KernelChoice("address", f"jupyter:{name}", "a Jupyter kernel of this machine")
            for name in find_kernelspecs()
        ]
    return found + [KernelChoice("address", address, "used before") for address in recent]


PAUSE = 0.05
"""Seconds without a key press before a search starts, so that fast typing causes only one."""


class HistorySearch(ListScreen[HistoryEntry | None, HistoryEntry]):
    """Searches earlier inputs; returns the chosen entry, or None after Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+r", "previous", "Up")]

    def __init__(self, history: History) -> None:
        super().__init__()
        self._full_text = CodeArea(id="whole")
        self._full_text.can_focus = False
        self._full_text.read_only = True
        hint = "Enter edits it · ↑ ↓ choose · Esc cancels"
        self.listing = Listing(self, "History", hint, "type to search", below=self._full_text)
        self._history = history
        self._found: list[HistoryEntry] = []
        self._found_for: str | None = None
        """The query that produced the shown entries."""

    def on_mount(self) -> None:
        self.find()

    @work(exclusive=True)
    async def find(self) -> None:
        await asyncio.sleep(PAUSE)
        await self._find(self.listing.typed)

    async def _find(self, query: str) -> None:
        found = await asyncio.to_thread(self._history.search, query)
        if not self.is_current:  # the user left during the search
            return
        self._found, self._found_for = found, query
        self.listing.fill(0)
        self.listing.show_count(f"{len(found)} found" if found else "nothing found")

    def rows(self, typed: str) -> Sequence[HistoryEntry]:
        return self._found

    def line(self, row: HistoryEntry, width: int) -> Content:
        """Show an entry's mode, its first line with the query highlighted, and its number of
        further lines."""
        query = self._found_for or ""
        first, *more = plain(row.text).expandtabs(4).split("\n")
        text = Content(first)
        position = first.lower().find(query.lower())
        if query and position >= 0:
            text = text.stylize("$moon bold", position, position + len(query))
        glyph = ("◈", "$model") if row.mode == "ask" else ("❯", "$person")
        return Content.assemble(
            glyph,
            " ",
            text,
            ("" if not more else f"  +{len(more)} line{'s' * (len(more) > 1)}", "$muted"),
        )

    def describe(self, row: HistoryEntry | None) -> Content:
        self._full_text.python = row is None or row.mode == "python"
        self._full_text.load_text(clean(row.text) if row else "")
        return Content("")

    def action_previous(self) -> None:
        self.listing.action_move(-1)

    @work
    async def take(self) -> None:
        if self._found_for != self.listing.typed:
            await self._find(self.listing.typed)
        if self.is_current and (row := self.listing.chosen) is not None:
            self.dismiss(row)
