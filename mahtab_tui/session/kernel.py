"""A session's kernel: its creation, its requests, the thread that runs the queued cells, and the
kernels of sessions in the background."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import (
    AssistantReplIn,
    Input,
    Notice,
    Record,
    ReplIn,
    ReplOut,
    UserReplIn,
    UserReplOut,
    emit,
    warn,
)
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.cells import TerminalOutput
from mahtab_tui.kernel.detached import (
    DetachedKernel,
    detached_kernels,
    recovered_output,
    start_detachable,
    stop,
)
from mahtab_tui.kernel.host import HostFunction, HostServer
from mahtab_tui.kernel.launch import (
    ConnectionState,
    Launcher,
    LocalLauncher,
    LocalProcess,
    Process,
    environment,
)
from mahtab_tui.kernel.masked import MaskedKernel
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote.process import KernelNote, noted_kernels
from mahtab_tui.kernel.values import KernelInfo, KernelState, SaveTarget
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.ledger import SessionLedger
from mahtab_tui.session.cells import (
    Cells,
    UndoControl,
    last_changes,
    output_attrs,
    output_records,
    unfinished_cells,
)
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.info import MakeKernel, UserRequests
from mahtab_tui.session.namespace_store import NamespaceStore
from mahtab_tui.session.private_names import PrivateNames, explain_refusal
from mahtab_tui.session.runtime import Runtime
from mahtab_tui.settings.model import Settings, home_folder
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_file import suppress_all_but_corruption
from mahtab_tui.store.session_lock import locked_sessions
from mahtab_tui.store.sqlite import SqliteStore, list_sessions, records_with_tag
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from mahtab_tui.kernel.remote.process import ConnectedKernel
    from mahtab_tui.session.agent import SessionAgent
    from mahtab_tui.session.knowledge import Knowledge
    from mahtab_tui.session.loading import DataFile
    from mahtab_tui.session.searches import Searches
    from mahtab_tui.session.server_calls import ServerCalls


JUPYTER_PREFIXES = ("jupyter", "existing:")
"""Beginnings of Jupyter kernels' addresses."""
RECONNECT_HOURS = 0.25
"""Hours that a remote kernel waits even if kernels must not outlive their screen, because it cannot
tell whether only the connection is gone."""
JOIN_TIMEOUT_S = 2.0
"""Seconds that closing a session waits for its cell thread."""
MAX_IDLE_KERNELS = 5
"""Detached kernels that may wait without running a cell."""
MAX_DESCRIBED_CODE_CHARS = 60
"""Characters of a running cell's code in the description of its kernel."""

OUTPUT_FUNCTION = HostFunction(
    name="_out",
    called="cell_output",
    parameters=(("cell", "int", None),),
    doc="Return all that a cell printed, as text, by the cell's number.",
)


def add_recovered_output(
    store: SqliteStore, past: Sequence[Record], secrets: Secrets
) -> list[Record]:
    """Add the output of a cell that ended while no screen was open, because its kernel ended.

    Args:
        store: The resumed session's store, which gets the new records.
        past: The session's records.
        secrets: Masks the output.

    Returns:
        The records with the new ones.

    Raises:
        StoreError: The store cannot be written.
    """
    records = list(past)
    for cell, output, path in recovered_output(store.session):
        # The previous screen stored the beginning of this output before it closed.
        other_records = [
            record
            for record in records
            if not (isinstance(record, ReplOut) and record.cell == cell and record.cut)
        ]
        unfinished = unfinished_cells(other_records)
        started = next((record for record in unfinished if record.cell == cell), None)
        if started is not None:
            terminal = TerminalOutput()
            terminal.add("stdout", output.decode(errors="replace"))
            text, kinds = terminal.text()
            _, output_record = output_records(started)
            output_end = output_record(
                secrets.mask(text),
                **output_attrs(started),
                status=str(Status.DIED),
                kinds=kinds,
                rewritten=terminal.rewritten,
                time=time.time(),
            )
            notice = Notice(
                f"The kernel ended in cell {cell} while no screen was open.",
                level="warning",
                time=time.time(),
            )
            store.cells_continue = True
            store.append(output_end)
            store.append(notice)
            # The last record lists what was restored, so it stays the last one.
            records = [*other_records[:-1], output_end, notice, *other_records[-1:]]
        path.unlink(missing_ok=True)
    return records


class ReattachedKernel(NamedTuple):
    """A detached kernel to which a resumed session has connected; both None if there is none."""

    local: LocalProcess | None = None
    remote: ConnectedKernel | None = None


def process_kernel(
    settings: Settings,
    save_target: SaveTarget | None = None,
    *,
    session: str = "",
    reattached: ReattachedKernel | None = None,
) -> Kernel:
    """Create a kernel according to the settings, without starting it.

    Args:
        settings: The settings.
        save_target: Where its namespace is saved; None if it is not.
        session: The id of a session whose kernel may outlive the screen; empty if it must not.
        reattached: A kernel to continue with.

    Raises:
        KernelError: The settings name a kernel that cannot be used.
    """
    reattached = reattached or ReattachedKernel()
    if reattached.remote is not None:
        settings = settings.model_copy(update={"kernel": reattached.remote.station.address})
    if settings.kernel is not None and settings.kernel.startswith(JUPYTER_PREFIXES):
        from mahtab_tui.kernel.jupyter.kernel import jupyter_kernel

        return jupyter_kernel(settings.kernel, os.getcwd(), startup_code(remote=True))
    return ProcessKernel(
        # The setting names an interpreter on this machine.
        settings.python if settings.kernel is None else None,
        startup=startup_code(remote=settings.kernel is not None),
        reload=settings.reload,
        undo_steps=settings.undo_steps,
        undo_memory=settings.undo_memory,
        keep=save_target,
        launcher=_make_launcher(settings, session, reattached),
    )


def check_address(address: str) -> None:
    """Check the address of a kernel on another machine or of a Jupyter kernel. Raises
    `KernelError`."""
    if address.startswith(JUPYTER_PREFIXES):
        from mahtab_tui.kernel.jupyter.kernel import parse as parse_jupyter

        parse_jupyter(address)
    else:
        from mahtab_tui.kernel.remote.transport import parse

        parse(address)


class LocalDetachable(LocalLauncher):
    """Launches kernels on this machine that can outlive their screen."""

    def __init__(self, session: str, hours: float, reattached: LocalProcess | None) -> None:
        """Create a launcher.

        Args:
            session: The id of the session.
            hours: How long an idle kernel waits for a screen.
            reattached: The process that the first `start` returns instead of a new one.
        """
        self._session = session
        self._hours = hours
        self._reattached = reattached
        self.will_reattach = reattached is not None

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], wire: ConnectionState
    ) -> Process:
        if self._reattached is not None:
            process = self._reattached
            self._reattached = None
            return process
        process, self.problem = start_detachable(
            executable, cwd, environment(*size), self._session, self._hours
        )
        return process


def _make_launcher(
    settings: Settings, session: str, reattached: ReattachedKernel
) -> Launcher | None:
    """Return None for a kernel on this machine that ends with its screen."""
    if settings.kernel is None:
        if session and settings.keep_kernel and sys.platform == "linux":
            return LocalDetachable(session, settings.keep_kernel, reattached.local)
        return None
    from mahtab_tui.kernel.remote.process import RemoteLauncher
    from mahtab_tui.kernel.remote.transport import parse

    kept_session = session if settings.keep_kernel else ""
    hours = settings.keep_kernel or RECONNECT_HOURS
    return RemoteLauncher(parse(settings.kernel), hours, kept_session, reattached.remote)


def startup_code(*, remote: bool = False) -> str:
    """Return code that runs the user's ``startup.py``; empty if there is no such file.

    Args:
        remote: Whether the kernel cannot read the file itself.
    """
    path = home_folder() / "startup.py"
    if not path.is_file():
        return ""
    name = str(path)
    source = f"__import__('pathlib').Path({name!r}).read_bytes()"
    if remote:
        source = repr(path.read_bytes())
    # This binds no names, which would remain if the file fails.
    return f"exec(compile({source}, {name!r}, 'exec'))"


class SessionKernelHost:
    """The `kernel.host.KernelHost` of a session."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        cells: Cells,
        private: PrivateNames,
        knowledge: Knowledge,
        searches: Searches,
        agent: SessionAgent,
        spending: SessionLedger,
        servers: ServerCalls | None,
    ) -> None:
        """servers: None if the session has no MCP servers."""
        self._runtime = runtime
        self._cells = cells
        self._private = private
        self._knowledge = knowledge
        self._searches = searches
        self._agent = agent
        self._spending = spending
        self._servers = servers
        self.inputs: UserRequests[str | None] = UserRequests()
        """The calls of `input()` that wait for the user."""
        self._tool_calls: set[tuple[str, threading.Event]] = set()
        """The names of running tools, each with the event that cancels it."""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        is_only_busy_or_idle = info.state in (KernelState.BUSY, KernelState.IDLE) and not text
        # In an agent's own session, nobody watches whether a cell runs.
        if not (is_only_busy_or_idle and self._runtime.frontend.belongs_to_agent):
            self._log_state(info, text)
        self._cells.follow(info.state)
        if info.state is KernelState.DEAD and self._servers is not None:
            self._servers.cancel()

    def _log_state(self, info: KernelInfo, text: str) -> None:
        is_busy = info.state is KernelState.BUSY
        record = records.Kernel(
            text,
            state=str(info.state),
            python=info.python,
            executable=info.executable,
            cwd=info.cwd,
            pid=info.pid,
            cell=self._cells.last if is_busy else None,
            since=self._cells.resumed_since if is_busy else None,
            host=info.host or None,
            address=info.address or None,
            next_try=info.next_try or None,
        )
        emit(self._runtime.log, record)

    def background_output(self, text: str) -> None:
        text = self._runtime.secrets.mask(text)
        kinds = (("stdout", len(text)),)
        emit(self._runtime.log, UserReplOut(text, cell=self._cells.last, late=True, kinds=kinds))

    def functions(self) -> Sequence[HostFunction]:
        return [*self._knowledge.toolset.functions(), OUTPUT_FUNCTION]

    def servers(self) -> Sequence[HostServer]:
        if self._servers is None:
            return ()
        return self._servers.servers()

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Serve a function that code in the kernel has called.

        Args:
            name: The function's name on the wire.
            args: Its arguments. They come from the kernel, so nothing in them is trusted.

        Returns:
            A JSON value.

        Raises:
            RuntimeError: The call is refused, or failed. The message is a sentence.
        """
        searches = self._searches
        tree = str(args.get("tree", ""))

        # What these functions send to a model could contain a private value.
        if name in ("ask", "rlm"):
            private_names = self._cells.private_in_use
            if private_names:
                raise RuntimeError(explain_refusal(f"{name}()", private_names))
        match name:
            case "private":
                return self._mark_private(str(args["name"]), bool(args["on"]))
            case "ask":
                return self._ask_model(str(args["prompt"]))
            case "cell_output":
                return self._cell_output(args["cell"])
            case "usage":
                return self._spending.table()
            case "rlm":
                return searches.run_from_cell(args, self._cells.last, self._agent.model)
            case "rlm_text":
                start = args.get("start")
                start = None if start is None else int(start)
                return searches.received_texts.add(tree, str(args["text"]), start)
            case "rlm_tools":
                return searches.open_tools(tree).next()
            case "rlm_tool":
                return searches.open_tools(tree).done(args["call"], args["result"])
            case "rlm_tools_end":
                return searches.open_tools(tree).end()
            case "rlm_stop":
                return searches.stop_tree(tree)
            case "terminal":
                # Another machine must not start programs on this one.
                if host := self._runtime.kernel.info().host:
                    raise RuntimeError(f"A program that needs the terminal cannot run on {host}.")
                argv = [str(word) for word in args["argv"]]
                return self._runtime.frontend.run_in_terminal(argv, str(args["cwd"]))
            case "mcp_tools" | "mcp_call" | "mcp_cancel" | "mcp_search" if self._servers:
                return self._servers.call(name, args)
            case "quit":
                return self._cells.leave()
            case "input":
                return self._input(str(args.get("prompt", "")), bool(args.get("password")))
            case _ if name in self._knowledge.toolset.tools:
                return self._call_tool(name, args)
        raise RuntimeError(f"The host has nothing called {name!r}.")

    def call_cancelled(self, name: str) -> None:
        cancel_functions: dict[str, Callable[[], object]] = {
            "input": self.inputs.cancel_all,
            "ask": self._agent.stop,
            "rlm": self._searches.stop_all,
            "rlm_tools": self._searches.end_tools,
        }
        if name in cancel_functions:
            cancel_functions[name]()
        for tool_name, cancelled in list(self._tool_calls):
            if tool_name == name:
                cancelled.set()

    def _cell_output(self, cell: object) -> str:
        if not isinstance(cell, int):
            raise RuntimeError("_out() takes the number of a cell, as in _out(7).")
        if self._private.is_private_cell(cell):
            self._refuse_foreign_code(
                f"read the output of cell {cell}, which used a private variable"
            )
        output = self._cells.outputs.get(cell)
        if output is None:
            raise RuntimeError(f"The output of cell {cell} is not remembered.")
        return output

    def _call_tool(self, name: str, args: Mapping[str, Any]) -> str:
        cancelled = threading.Event()
        tool_call = (name, cancelled)
        self._tool_calls.add(tool_call)
        try:
            return self._knowledge.toolset.run(name, args, cancelled)
        finally:
            self._tool_calls.discard(tool_call)

    def _mark_private(self, name: str, private: bool) -> None:
        if not private:
            self._refuse_foreign_code("make a private variable public")
        self._private.mark(name, private)

    def _refuse_foreign_code(self, action: str) -> None:
        if self._cells.assistant_runs or self._cells.agent_runs:
            raise RuntimeError(f"Code from the model or an agent cannot {action}.")

    def _ask_model(self, prompt: str) -> str:
        self._refuse_foreign_code("call ask()")
        try:
            return self._agent.ask(prompt, from_cell=True)
        except ModelError as error:
            raise RuntimeError(str(error)) from None

    def _input(self, prompt: str, password: bool) -> str | None:
        if self._runtime.by_program:
            return None
        request = self.inputs.new_id()
        record = Input(
            prompt, request=request, cell=self._cells.last, password=password, state="waiting"
        )
        emit(self._runtime.log, record)

        answer = None
        state = "cancelled"
        with suppress(CancelledError):
            answer = self.inputs.wait(request)
            state = "answered"
        if password and answer is not None:
            self._runtime.secrets.add(answer)
        emit(self._runtime.log, record.changed(state=state, time=0.0))
        return answer


class CellThread:
    """Starts the kernel, loads files, and then runs the queued cells one by one."""

    def __init__(
        self,
        runtime: Runtime,
        cells: Cells,
        namespace_store: NamespaceStore,
        inbox: Inbox,
        host: SessionKernelHost,
        ready: Future[bool],
        files: Sequence[DataFile],
    ) -> None:
        """
        Args:
            runtime: What the session works with.
            cells: Runs the cells.
            namespace_store: Restores the saved variables.
            inbox: The queue of cells.
            host: What the kernel reports to.
            ready: Gets whether the kernel's Python has pandas.
            files: Loaded into variables once the kernel has started.
        """
        self._runtime = runtime
        self._cells = cells
        self._namespace_store = namespace_store
        self._inbox = inbox
        self._host = host
        self._ready = ready
        self._files = files
        self._thread = threading.Thread(target=self._run, name="cells", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread. Close the inbox first."""
        if self._thread.is_alive():
            self._thread.join(JOIN_TIMEOUT_S)

    def load(self, file: DataFile) -> bool:
        """Run a cell that loads a file; returns whether it succeeded."""
        from mahtab_tui.session.loading import make_loading_cell

        has_pandas = self._runtime.kernel.can_import("pandas")
        loading_cell = make_loading_cell(
            file, Path(self._runtime.kernel.info().cwd), pandas=has_pandas
        )
        # Import it from the environment first: opening a file must not run modules next to it.
        if loading_cell.module:
            self._runtime.kernel.import_module(loading_cell.module)
        result = self._cells.run(loading_cell.code)

        is_loaded = result.status is Status.OK
        note = loading_cell.note
        if not is_loaded:
            note = (
                f"{one_line(file.path.name)} could not be loaded: the cell above shows why."
                f" There is no variable {file.name}."
            )
        if note:
            warn(self._runtime.log, note)
        return is_loaded

    def _attach(self) -> None:
        """Continue with the cells and variables of a kernel that was reattached."""
        cells = unfinished_cells(self._runtime.past)
        start_thread("list-variables", self._announce_variables)
        # The later cells run inside the first one.
        for cell in cells[1:]:
            start_thread("resume-cell", self._resume_cell, cell, True)
        if cells:
            self._resume_cell(cells[0], False)

    def _announce_variables(self) -> None:
        try:
            self._namespace_store.resume(*self._runtime.kernel.saved_before())
            self._cells.announce_restored(last_changes(self._runtime.past))
            self._ready.set_result(self._runtime.kernel.can_import("pandas"))
        except KernelError as error:
            warn(self._runtime.log, str(error))

    def _resume_cell(self, cell: ReplIn, nested: bool) -> None:
        try:
            self._cells.resume_cell(cell, nested)
        except KernelError as error:
            self._report(str(error))

    def _start_kernel(self) -> None:
        try:
            self._runtime.kernel.start(self._host)
            if self._runtime.kernel.was_reattached:
                self._attach()
            else:
                # The startup code or another program may have made variables.
                variables = self._runtime.kernel.variables()
                if variables:
                    self._cells.announce_existing(variables)
                self._namespace_store.start_restore()
                self._ready.set_result(self._runtime.kernel.can_import("pandas"))
            for file in self._files:
                self.load(file)
        except KernelError as error:
            self._report(str(error))
            if not self._ready.done():
                self._ready.set_exception(error)

    def _run(self) -> None:
        self._start_kernel()
        while (item := self._inbox.next_item("python")) is not None:
            try:
                if item.work is not None:
                    item.work()
                else:
                    self._cells.run(item.text)
            except Exception as error:  # the thread's outermost frame
                self._report(f"The cell could not be run: {type(error).__name__}: {error}")

    def _report(self, problem: str) -> None:
        emit(self._runtime.log, Notice(problem, level="error"))


def remote_detached_kernels() -> list[KernelNote]:
    """Return the kernels on other machines whose sessions are not open; they may have ended."""
    open_sessions = locked_sessions()
    return [note for note in noted_kernels() if note.session not in open_sessions]


def local_detached_kernels() -> list[DetachedKernel]:
    """Return this machine's kernels without a screen, longest wait first."""
    open_sessions = locked_sessions()
    kernels = [
        kernel
        for kernel in detached_kernels()
        if not kernel.has_host and kernel.session not in open_sessions
    ]
    return sorted(kernels, key=lambda kernel: kernel.since)


def stop_surplus_kernels() -> None:
    """Stop the kernels that have been idle longest, if too many wait."""
    idle = [kernel for kernel in local_detached_kernels() if kernel.has_run and not kernel.cell]
    surplus_count = max(0, len(idle) - MAX_IDLE_KERNELS)
    for kernel in idle[:surplus_count]:
        with suppress(OSError):
            stop(kernel)


def summarize_detached_kernels() -> dict[str, str]:
    """Return what each kernel without a screen is doing, by session."""
    kernels: list[DetachedKernel | KernelNote] = [
        *remote_detached_kernels(),
        *local_detached_kernels(),
    ]
    return {kernel.session: describe_kernel(kernel) for kernel in kernels}


def stop_detached_kernel(session: str) -> str:
    """Stop this machine's waiting kernel of a session; returns a sentence."""
    kernels = [kernel for kernel in local_detached_kernels() if kernel.session == session]
    if not kernels:
        return f"No kernel of this machine waits for it. To end one elsewhere: mahtab-tui sessions stop {session}"
    kernel = kernels[0]
    try:
        has_ended = stop(kernel)
    except OSError as error:
        return f"Its kernel cannot be reached: {error.strerror or error}."
    if not has_ended:
        return f"Its kernel (process {kernel.pid}) has not ended yet."
    return "Its kernel has ended."


def describe_detached_kernels() -> str:
    """Return a sentence about the kernels without a screen; empty if there are none."""
    local_kernels = [kernel for kernel in local_detached_kernels() if kernel.has_run]
    kernels: list[DetachedKernel | KernelNote] = [*local_kernels, *remote_detached_kernels()]
    if not kernels:
        return ""
    if len(kernels) == 1:
        id = kernels[0].session
        activity = f"{describe_kernel(kernels[0])}{foreign_folder(id)}"
        commands = f"Resume: mahtab-tui --resume {id}. Stop: mahtab-tui sessions stop {id}"
        return f"Session {id} has a kernel in the background, {activity}. {commands}"

    busy_count = sum(bool(kernel.cell) for kernel in local_kernels)
    busy_note = f", {busy_count:,} of them busy" if busy_count else ""
    return (
        f"{len(kernels):,} kernels are in the background{busy_note}. /sessions lists them;"
        " mahtab-tui sessions stop --idle stops those that run no cell"
    )


def describe_kernel(kernel: DetachedKernel | KernelNote) -> str:
    """Return what a kernel without a screen is doing, as a clause."""
    age = _format_age(time.time() - kernel.since)
    if isinstance(kernel, KernelNote):
        return f"started {age} ago on {one_line(kernel.station.label)}"
    resources = _describe_resources(kernel.pid)
    if not kernel.cell:
        return f"idle for {age}, {resources}"
    activity = f"running cell {kernel.cell} for {age}, {resources}"
    code = _running_code(kernel)
    return f"{activity}: {code}" if code else activity


def foreign_folder(session: str) -> str:
    """Return a session's folder if it is not the current one."""
    with suppress_all_but_corruption():
        for row in list_sessions(database(), None, begins=session):
            if row.id == session and row.project != str(Path.cwd()):
                return f" in {one_line(row.project)}"
    return ""


def _describe_resources(pid: int) -> str:
    """Return the CPU time and the resident memory of a process."""
    try:
        resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        # The fields after the command's name, which may contain spaces and brackets: see proc(5).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        cpu_ticks = int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return "? MB"
    cpu_seconds = cpu_ticks / os.sysconf("SC_CLK_TCK")
    megabytes = resident_pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return f"CPU {_format_age(cpu_seconds)}, {megabytes:,.0f} MB"


def _running_code(kernel: DetachedKernel) -> str:
    """Return the beginning of the code that a kernel runs, in one line; empty if it is unknown."""
    code = ""
    with suppress_all_but_corruption():
        for record_class in (UserReplIn, AssistantReplIn):
            for record in records_with_tag(database(), kernel.session, record_class.tag):
                if isinstance(record, ReplIn) and record.cell == kernel.cell:
                    code = code or " ".join(record.text.split())
    if len(code) > MAX_DESCRIBED_CODE_CHARS:
        code = f"{code[: MAX_DESCRIBED_CODE_CHARS - 1]}…"
    return one_line(code)


def _format_age(seconds: float) -> str:
    minutes, remaining_seconds = divmod(max(0, int(seconds)), 60)
    if minutes < 1:
        return f"{remaining_seconds} s"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60:,} h {minutes % 60} min"


class KernelControl:
    """The user's actions on the kernel. Methods return immediately."""

    def __init__(
        self,
        log: logging.Logger,
        kernel: MaskedKernel,
        make_kernel: MakeKernel | None,
        *,
        cells: Cells,
        undo: UndoControl,
        private: PrivateNames,
    ) -> None:
        """make_kernel: None if the session must keep its kernel."""
        self._log = log
        self._kernel = kernel
        self._make_kernel = make_kernel
        self._cells = cells
        self._undo = undo
        self._private = private

    def kill(self) -> None:
        """Kill the kernel, without saving its variables."""
        self._on_thread("The kernel could not be killed", self._kernel.kill)

    def reset(self) -> None:
        """Start a new kernel without variables."""
        self._on_thread("The kernel could not be reset", self._cells.reset_kernel)

    def activate(self, python: str) -> None:
        """Switch to another interpreter or environment. python: its path."""
        change = partial(self._kernel.activate, python)
        self._on_thread("The interpreter was not changed", self._cells.change_kernel, change)

    def move(self, address: str) -> None:
        """Switch to a kernel at another address; empty for this machine."""

        def work() -> None:
            if self._make_kernel is None:
                raise KernelError("The kernel of this session belongs to another program.")
            kernel = self._make_kernel(address)
            text = f"Switched to {address or 'this machine'}."
            self._cells.change_kernel(lambda: self._kernel.replace_kernel(kernel, text))

        self._on_thread("The kernel was not moved", work)

    def change_directory(self, path: str) -> None:
        def work() -> None:
            folder = self._kernel.change_directory(path)
            emit(self._log, Notice(f"The working directory is now {folder}."))

        self._on_thread("The working directory was not changed", work)

    def redo(self) -> None:
        self._on_thread("Nothing was redone", self._undo.redo)

    def mark_private(self, name: str, private: bool) -> None:
        self._on_thread("Nothing was marked", self._private.mark, name, private)

    def _on_thread(self, failure: str, work: Callable[..., object], *args: object) -> None:
        """Call a function on a thread. failure: the beginning of the notice if it fails."""

        def work_or_report() -> None:
            try:
                work(*args)
            except KernelError as error:
                emit(self._log, Notice(f"{failure}. {error}", level="error"))

        start_thread("kernel-work", work_or_report)
