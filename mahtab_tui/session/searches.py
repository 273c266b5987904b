"""Runs the searches that cells start with `rlm`, and stops them."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mahtab_tui.bus.records import Record, SearchBegin, SearchFinal, Usage, emit, warn
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.session_ledger import SessionLedger
from mahtab_tui.session.cell_searches import CellSearch, HandedText
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.kernel_tools import KernelTools
from mahtab_tui.session.received_texts import ReceivedTexts
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.system import IMPORTS, start_thread
from mahtab_tui.worker.rlm.contexts import ContextText
from mahtab_tui.worker.sandbox.caller_tools import DescribedTool

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.search.search import Search
    from mahtab_tui.search.search_answers import SearchAnswer

MAX_TOOL_TREES = 32
"""Searches whose tools are remembered, because the kernel may ask for them before they begin."""
MAX_STOPPED_TREES = 1_000
"""Stopped searches that are remembered, because their calls may come later."""


class Searches:
    """Implements `search.trees.SearchControl` over an engine that is loaded with the first search."""

    def __init__(
        self,
        runtime: Runtime,
        inbox: Inbox,
        spending: SessionLedger,
        model_options: Callable[[], dict[str, Any]],
    ) -> None:
        """
        Args:
            runtime: What the session works with.
            inbox: Gets the cells that keep an answer.
            spending: The session's budget.
            model_options: Returns the keyword arguments for `get_llm`.
        """
        self._runtime = runtime
        self._can_ask = runtime.frontend.can_ask
        self._inbox = inbox
        self._spending = spending
        self._model_options = model_options
        self._engine_lock = threading.Lock()
        self._search: Search | None = None
        self._running: dict[str, str] = {}
        """The running root of each tree that a cell waits for."""
        self._tools: dict[str, KernelTools] = {}
        """The tools of searches, by tree."""
        self._stopped: dict[str, None] = {}
        """Trees that cells do not wait for any more, the newest last; some may not have begun."""
        self.received_texts = ReceivedTexts()

    def run_from_cell(
        self, args: Mapping[str, Any], cell: int, session_model: str | BaseChatModel
    ) -> dict[str, Any]:
        """Serve `rlm(…)` in a cell.

        Args:
            args: The arguments of the call. They come from the kernel, so nothing in them is
                trusted.
            cell: The number of the cell.
            session_model: The model to ask if the call names none.

        Returns:
            A `worker.rlm.answers.Result` as a dict, or a dict with the key ``failed``.

        Raises:
            RuntimeError: The search cannot run. The message is a sentence.
        """
        from mahtab_tui.sandbox.base import SandboxError

        origin = {"cell": cell, "source": "cell"}
        try:
            request = CellSearch.parse(args)
            self._check_stopped(request.tree)
            # Another machine must not reach services that only this one can reach.
            if request.access and self._runtime.kernel.info().host:
                raise ValueError(
                    "A kernel on another machine may not give base_url and api_key. Set base_url in the settings."
                )
            if request.text is None:
                answer = self._engine().run_again(request.tree, request.query, origin)
            else:
                answer = self._run(request, request.text, origin, session_model)
        except (ValueError, OSError, ModelError, SandboxError) as error:
            raise RuntimeError(str(error)) from None
        return self._pack_answer(answer, wants_raw=request.wants_raw)

    def _run(
        self,
        request: CellSearch,
        handed_text: HandedText,
        origin: Mapping[str, Any],
        session_model: str | BaseChatModel,
    ) -> SearchAnswer:
        """Run a new search over the text that the cell has handed on."""
        from mahtab_tui.sandbox.searched_text import SearchedText
        from mahtab_tui.search.limits import merge_limits
        from mahtab_tui.search.search import SearchSettings

        settings = self._runtime.settings
        limits = merge_limits(settings.rlm_limits(), **request.limits)
        text = self._take_text(request.tree, handed_text)
        tools = self.open_tools(request.tree, request.tools) if request.tools else None
        # Loading it takes some seconds the first time.
        engine = self._engine()
        self._check_stopped(request.tree)
        search_settings = SearchSettings(
            tree=request.tree,
            fan_out_policy=self._fan_out_policy(request),
            by_code=request.by_code,
            tools=tools,
            sampling=request.sampling,
            access=request.access,
            begin_attributes=origin,
        )
        return engine.run(
            request.query,
            SearchedText.of(text, request.instructions),
            model=request.model or session_model,
            sub_model=request.sub_model or settings.sub_model,
            limits=limits,
            settings=search_settings,
        )

    def _fan_out_policy(self, request: CellSearch) -> Literal["run", "ask", "refuse"]:
        """Return what to do if a search wants to make many calls at once."""
        if request.allows_fan_outs:
            return "run"
        # Without a screen there is nobody to ask.
        return "ask" if self._can_ask else "refuse"

    def _take_text(self, tree: str, handed_text: HandedText) -> ContextText:
        """Return the text that a cell searches: from the file in which the cell has written it, or
        as a kernel on another machine has sent it. Raises `ValueError` and `OSError`."""
        if self._runtime.kernel.info().host:
            content = self.received_texts.take(tree)
        else:
            content = _read_text(Path(handed_text.file))
        return handed_text.with_content(content)

    def _pack_answer(self, answer: SearchAnswer, *, wants_raw: bool) -> dict[str, Any]:
        """Convert an answer for the kernel."""
        packed = base64.b64encode(answer.packed()).decode()
        if answer.state in ("error", "stopped"):
            return {"failed": plain(answer.text), "packed": packed}
        if answer.state == "partial":
            reason = answer.why.rstrip(".") or "The search ended early"
            warn(self._runtime.log, f"{reason}; this answer is partial.")
        result = answer.as_result(raw=wants_raw)
        return {**result._asdict(), "packed": packed}

    def open_tools(
        self, tree: str, described: Sequence[DescribedTool] | None = None
    ) -> KernelTools:
        """Return the tools of a search, new ones if the kernel asks before its search begins."""
        with self._engine_lock:
            for old_tree in list(self._tools)[:-MAX_TOOL_TREES]:
                self._tools.pop(old_tree).end()
            tools = self._tools.setdefault(tree, KernelTools())
        if described is not None:
            tools.described = list(described)
        return tools

    def end_tools(self) -> None:
        """End the tools of all searches."""
        for tools in list(self._tools.values()):
            tools.end()

    def end_tools_of(self, tree: str) -> None:
        """End the tools of a search, if it has any."""
        tools = self._tools.get(tree)
        if tools is not None:
            tools.end()

    def stop_tree(self, tree: str) -> None:
        """Stop a search that a cell waits for; one that has not begun does not begin."""
        with self._engine_lock:
            for old_tree in list(self._stopped)[:-MAX_STOPPED_TREES]:
                del self._stopped[old_tree]
            self._stopped[tree] = None
        root = self._running.get(tree)
        if root is not None:
            self.stop(tree, root)

    def _check_stopped(self, tree: str) -> None:
        """Raise `RuntimeError` if a search was stopped before it began."""
        if tree in self._stopped:
            raise RuntimeError("The search was stopped.")

    def close(self) -> None:
        """Stop all searches, and wait until they have ended."""
        self.end_tools()
        with self._engine_lock:
            search = self._search
            self._search = None
        if search is not None:
            search.close()

    # The methods of `SearchControl`

    def stop(self, tree: str, node: str) -> None:
        search = self._search
        if search is not None:
            search.stop(tree, node)

    def make_variable(self, answer: str) -> None:
        def enter_cell() -> None:
            try:
                used_names = {variable.name for variable in self._runtime.kernel.variables()}
            except KernelError as error:
                warn(self._runtime.log, str(error))
                return
            self._inbox.put("python", f"{_unused_name('answer', used_names)} = {answer!r}")

        start_thread("answer", enter_cell)

    def text(self, tree: str, start: int, end: int) -> str | None:
        search = self._search
        if search is None or search.text(tree, start, start) is None:
            return None

        def read(first: int, last: int) -> str:
            return search.text(tree, first, last) or ""

        # A secret that begins before the page or ends after it must be recognised, too.
        return self._runtime.secrets.mask_page(read, start, end)

    def answer(self, request: str, run: bool) -> None:
        search = self._search
        if search is not None:
            search.answer(request, run)

    def _engine(self) -> Search:
        """Return the engine, which is loaded with the first search."""
        with IMPORTS.turn():
            from mahtab_tui.search.search import Search

        with self._engine_lock:
            if self._search is None:
                self._search = Search(
                    self._on_record,
                    model_options=self._model_options,
                    ledger=self._spending,
                    secrets=self._runtime.secrets,
                )
            return self._search

    def _on_record(self, record: Record) -> None:
        """Follow which searches run, count what they use, and log it. Called on their thread."""
        if isinstance(record, SearchBegin):
            self._note_begin(record)
        elif isinstance(record, SearchFinal):
            if self._running.get(record.tree) == record.node:
                del self._running[record.tree]
        elif isinstance(record, Usage):
            self._spending.count(record)
        emit(self._runtime.log, record)

    def _note_begin(self, record: SearchBegin) -> None:
        is_root = record.parent is None
        is_for_cell = record.source == "cell" or record.tree in self._running
        if is_root and is_for_cell:
            self._running[record.tree] = record.node
            # The cell may have been interrupted before the search began.
            if record.tree in self._stopped:
                self.stop(record.tree, record.node)
        self._spending.name_search(record)


def _unused_name(name: str, used_names: Collection[str]) -> str:
    """Return the name, or the first of ``name_2``, ``name_3`` and so on that is not used."""
    unused_name = name
    number = 1
    while unused_name in used_names:
        number += 1
        unused_name = f"{name}_{number}"
    return unused_name


def _read_text(file: Path) -> str:
    """Read and remove a cell's file: the kernel might be killed before it can remove it."""
    text = file.read_bytes().decode("utf-8", "surrogatepass")
    # Removing fails if the path leads to a file in memory, which belongs to the kernel.
    with contextlib.suppress(OSError):
        file.unlink()
    return text
