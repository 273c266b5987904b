"""A session's kernel: its creation, its requests, the thread that runs the queued cells, and the
kernels of sessions in the background."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from itertools import chain
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
from mahtab_tui.kernel.base import (
    HostFunction,
    HostServer,
    Kernel,
    KernelError,
    KernelInfo,
    KernelState,
    SaveTarget,
    Status,
)
from mahtab_tui.kernel.cells import TerminalOutput
from mahtab_tui.kernel.detached import (
    WaitingKernel,
    recovered_output,
    start_detachable,
    stop,
    waiting_kernels,
)
from mahtab_tui.kernel.launch import (
    ConnectionState,
    Launcher,
    LocalLauncher,
    LocalProcess,
    Process,
    environment,
)
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.remote.process import KernelNote, noted_kernels
from mahtab_tui.llm.base import ModelError
from mahtab_tui.session.cells import last_changes, output_attrs, output_records, unfinished_cells
from mahtab_tui.session.info import UserRequests
from mahtab_tui.session.variables import explain_refusal
from mahtab_tui.settings.model import Settings, home_folder
from mahtab_tui.store.database import locked_sessions, suppress_all_but_corruption
from mahtab_tui.store.resume import database
from mahtab_tui.store.sqlite import SqliteStore, list_sessions, records_with_tag
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from mahtab_tui.kernel.remote.process import ConnectedKernel
    from mahtab_tui.session.components import Components
    from mahtab_tui.session.loading import DataFile


def add_recovered_output(
    store: SqliteStore, past: Sequence[Record], secrets: Secrets
) -> list[Record]:
    """Add the whole output of the cell in which a resumed session's kernel ended. Raises
    `StoreError`."""
    records = list(past)
    for cell, output, path in recovered_output(store.session):
        # The previous screen stored the beginning of this output before it closed.
        pieces = [
            record
            for record in records
            if not (isinstance(record, ReplOut) and record.cell == cell and record.cut)
        ]
        started = next((each for each in unfinished_cells(pieces) if each.cell == cell), None)
        if started is not None:
            text = TerminalOutput()
            text.add("stdout", output.decode(errors="replace"))
            whole, kinds = text.text()
            record = output_records(started)[1](
                secrets.mask(whole),
                **output_attrs(started),
                status=str(Status.DIED),
                kinds=kinds,
                rewritten=text.rewritten,
                time=time.time(),
            )
            sentence = f"The kernel ended in cell {cell} while no screen was open."
            ended = Notice(sentence, level="warning", time=time.time())
            store.cells_continue = True
            store.append(record)
            store.append(ended)
            # The last record lists what was restored.
            records = [*pieces[:-1], record, ended, *pieces[-1:]]
        path.unlink(missing_ok=True)
    return records


JUPYTER = ("jupyter", "existing:")
"""Prefixes of Jupyter kernel addresses."""
RECONNECT_HOURS = 0.25
"""Hours that a remote kernel waits even if kernels must not outlive their screen, because it cannot
tell whether only the connection is gone."""


class DetachedKernel(NamedTuple):
    local: LocalProcess | None = None
    remote: ConnectedKernel | None = None


def process_kernel(
    settings: Settings,
    keep: SaveTarget | None = None,
    *,
    session: str = "",
    waiting: DetachedKernel | None = None,
) -> Kernel:
    """Create a kernel according to the settings. keep: where its namespace is saved. session: whose
    kernel may outlive the screen. waiting: a kernel to reattach. Raises `KernelError`."""
    waiting = waiting or DetachedKernel()
    if waiting.remote is not None:
        settings = settings.model_copy(update={"kernel": waiting.remote.station.address})
    if settings.kernel is not None and settings.kernel.startswith(JUPYTER):
        from mahtab_tui.kernel.jupyter.kernel import jupyter_kernel

        return jupyter_kernel(settings.kernel, os.getcwd(), startup_code(remote=True))
    return ProcessKernel(
        # The setting names an interpreter on this machine.
        settings.python if settings.kernel is None else None,
        startup=startup_code(remote=settings.kernel is not None),
        reload=settings.reload,
        undo_steps=settings.undo_steps,
        undo_memory=settings.undo_memory,
        keep=keep,
        launcher=_make_launcher(settings, session, waiting),
    )


def check_address(address: str) -> None:
    """Raises `KernelError`."""
    if address.startswith(JUPYTER):
        from mahtab_tui.kernel.jupyter.kernel import parse as parse_jupyter

        parse_jupyter(address)
    else:
        from mahtab_tui.kernel.remote.transport import parse

        parse(address)


class LocalDetachable(LocalLauncher):
    """Launches kernels on this machine that can outlive their screen."""

    def __init__(self, session: str, hours: float, waiting: LocalProcess | None) -> None:
        """hours: how long an idle kernel waits. waiting: returned by the first `start`."""
        self._session = session
        self._hours = hours
        self._waiting = waiting
        self.will_reattach = waiting is not None

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], wire: ConnectionState
    ) -> Process:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            return waiting
        process, self.problem = start_detachable(
            executable, cwd, environment(*size), self._session, self._hours
        )
        return process


def _make_launcher(settings: Settings, session: str, waiting: DetachedKernel) -> Launcher | None:
    """Return None for a kernel on this machine that ends with its screen."""
    if settings.kernel is None:
        detachable = session and settings.keep_kernel and sys.platform == "linux"
        return LocalDetachable(session, settings.keep_kernel, waiting.local) if detachable else None
    from mahtab_tui.kernel.remote.process import RemoteLauncher
    from mahtab_tui.kernel.remote.transport import parse

    keeping = session if settings.keep_kernel else ""
    hours = settings.keep_kernel or RECONNECT_HOURS
    return RemoteLauncher(parse(settings.kernel), hours, keeping, waiting.remote)


def startup_code(*, remote: bool = False) -> str:
    """Return code that runs the user's ``startup.py``. remote: the kernel cannot read the file
    itself."""
    path = home_folder() / "startup.py"
    if not path.is_file():
        return ""
    name = str(path)
    source = (
        repr(path.read_bytes()) if remote else f"__import__('pathlib').Path({name!r}).read_bytes()"
    )
    # This binds no names, which would remain if the file fails.
    return f"exec(compile({source}, {name!r}, 'exec'))"


OUTPUT_FUNCTION = HostFunction(
    name="_out",
    called="cell_output",
    parameters=(("cell", "int", None),),
    doc="Return all that a cell printed, as text, by the cell's number.",
)


class SessionKernelHost:
    """The `kernel.base.KernelHost` of a session."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._log = parts.log
        self._cells = parts.cells
        self.inputs: UserRequests[str | None] = UserRequests()
        self._tool_calls: set[tuple[str, threading.Event]] = set()
        """Names, and events that cancel the calls."""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        runs = info.state is KernelState.BUSY
        emit(
            self._log,
            records.Kernel(
                text,
                state=str(info.state),
                python=info.python,
                executable=info.executable,
                cwd=info.cwd,
                pid=info.pid,
                cell=self._cells.last if runs else None,
                since=self._cells.resumed_since if runs else None,
                host=info.host or None,
                address=info.address or None,
                next_try=info.next_try or None,
            ),
        )
        self._cells.follow(info.state)
        if info.state is KernelState.DEAD and self._parts.servers is not None:
            self._parts.servers.cancel()

    def background_output(self, text: str) -> None:
        text = self._parts.secrets.mask(text)
        kinds = (("stdout", len(text)),)
        emit(self._log, UserReplOut(text, cell=self._cells.last, late=True, kinds=kinds))

    def functions(self) -> Sequence[HostFunction]:
        return [*self._parts.knowledge.toolset.functions(), OUTPUT_FUNCTION]

    def servers(self) -> Sequence[HostServer]:
        return () if self._parts.servers is None else self._parts.servers.servers()

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        parts, searches, tree = self._parts, self._parts.searches, str(args.get("tree", ""))
        if name in ("ask", "rlm") and (used := self._cells.private_in_use):
            raise RuntimeError(explain_refusal(f"{name}()", used))
        match name:
            case "private":
                return self._mark_private(str(args["name"]), bool(args["on"]))
            case "ask":
                return self._ask_model(str(args["prompt"]))
            case "cell_output":
                return self._cell_output(args["cell"])
            case "usage":
                return parts.spending.table()
            case "rlm":
                return searches.run_from_cell(args, self._cells.last, parts.agent.model)
            case "rlm_text":
                return searches.receive_text(tree, str(args["text"]))
            case "rlm_tools":
                return searches.open_tools(tree).next()
            case "rlm_tool":
                return searches.open_tools(tree).done(args["call"], args["result"])
            case "rlm_tools_end":
                return searches.open_tools(tree).end()
            case "rlm_stop":
                return searches.stop_tree(tree)
            case "terminal":
                if host := parts.kernel.info().host:  # another machine must not start programs
                    raise RuntimeError(f"A program that needs the terminal cannot run on {host}.")
                argv = [str(word) for word in args["argv"]]
                return parts.frontend.run_in_terminal(argv, str(args["cwd"]))
            case "mcp_tools" | "mcp_call" | "mcp_cancel" | "mcp_search" if parts.servers:
                return parts.servers.call(name, args)
            case "quit":
                return self._cells.leave()
            case "input":
                return self._input(str(args.get("prompt", "")), bool(args.get("password")))
            case _ if name in parts.knowledge.toolset.tools:
                return self._call_tool(name, args)
        raise RuntimeError(f"The host has nothing called {name!r}.")

    def call_cancelled(self, name: str) -> None:
        parts = self._parts
        cancel: dict[str, Callable[[], object]] = {
            "input": self.inputs.cancel_all,
            "ask": parts.agent.stop,
            "rlm": parts.searches.stop_all,
            "rlm_tools": parts.searches.end_tools,
        }
        if name in cancel:
            cancel[name]()
        for called, cancelled in list(self._tool_calls):
            if called == name:
                cancelled.set()

    def _cell_output(self, cell: object) -> str:
        if not isinstance(cell, int):
            raise RuntimeError("_out() takes the number of a cell, as in _out(7).")
        if self._parts.private.is_private_cell(cell):
            self._refuse_foreign_code(
                f"read the output of cell {cell}, which used a private variable"
            )
        output = self._cells.outputs.get(cell)
        if output is None:
            raise RuntimeError(f"The output of cell {cell} is not remembered.")
        return output

    def _call_tool(self, name: str, args: Mapping[str, Any]) -> str:
        waiting = name, threading.Event()
        self._tool_calls.add(waiting)
        try:
            return self._parts.knowledge.toolset.run(name, args, waiting[1])
        finally:
            self._tool_calls.discard(waiting)

    def _mark_private(self, name: str, private: bool) -> None:
        if not private:
            self._refuse_foreign_code("make a private variable public")
        self._parts.private.mark(name, private)

    def _refuse_foreign_code(self, action: str) -> None:
        if self._cells.assistant_runs or self._cells.agent_runs:
            raise RuntimeError(f"Code from the model or an agent cannot {action}.")

    def _ask_model(self, prompt: str) -> str:
        self._refuse_foreign_code("call ask()")
        try:
            return self._parts.agent.ask(prompt, from_cell=True)
        except ModelError as error:
            raise RuntimeError(str(error)) from None

    def _input(self, prompt: str, password: bool) -> str | None:
        if self._parts.by_program:
            return None
        request, cell = self.inputs.new_id(), self._cells.last
        asked = Input(prompt, request=request, cell=cell, password=password, state="waiting")
        emit(self._log, asked)
        try:
            answer, state = self.inputs.wait(request), "answered"
        except CancelledError:
            answer, state = None, "cancelled"
        if password and answer is not None:
            self._parts.secrets.add(answer)
        emit(self._log, asked.changed(state=state, time=0.0))
        return answer


class CellThread:
    def __init__(self, parts: Components, ready: Future[bool], files: Sequence[DataFile]) -> None:
        """files: loaded into variables once the kernel has started."""
        self._parts = parts
        self._log = parts.log
        self._kernel = parts.kernel
        self._ready = ready
        self._files = files
        self._thread = threading.Thread(target=self._run, name="cells", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread. Close the inbox first."""
        if self._thread.is_alive():
            self._thread.join(2.0)

    def load(self, file: DataFile) -> bool:
        """Run a cell that loads a file; returns whether it succeeded."""
        from mahtab_tui.session.loading import make_loading_cell

        pandas = self._kernel.installed("pandas")
        loading = make_loading_cell(file, Path(self._kernel.info().cwd), pandas=pandas)
        # Import it from the environment first: opening a file must not run modules next to it.
        if loading.module:
            self._kernel.installed(loading.module, load=True)
        loaded = self._parts.cells.run(loading.code).status is Status.OK
        text = loading.note
        if not loaded:
            shown = one_line(file.path.name)
            text = f"{shown} could not be loaded: the cell above shows why. There is no variable {file.name}."
        if text:
            warn(self._log, text)
        return loaded

    def _attach(self) -> None:
        cells = unfinished_cells(self._parts.past)
        start_thread("list-variables", self._announce_variables)
        for cell in cells[1:]:  # they run inside the first one
            start_thread("resume-cell", self._resume_cell, cell, True)
        if cells:
            self._resume_cell(cells[0], False)

    def _announce_variables(self) -> None:
        try:
            self._parts.namespace_store.resume(*self._kernel.saved_before())
            self._parts.cells.announce_restored(last_changes(self._parts.past))
            self._ready.set_result(self._kernel.installed("pandas"))
        except KernelError as error:
            warn(self._log, str(error))

    def _resume_cell(self, cell: ReplIn, nested: bool) -> None:
        try:
            self._parts.cells.resume_cell(cell, nested)
        except KernelError as error:
            self._report(str(error))

    def _start_kernel(self) -> None:
        try:
            self._kernel.start(self._parts.host)
            if self._kernel.was_reattached:
                self._attach()
            else:
                if variables := self._kernel.variables():
                    self._parts.cells.announce_existing(variables)
                self._parts.namespace_store.start_restore()
                self._ready.set_result(self._kernel.installed("pandas"))
            for file in self._files:
                self.load(file)
        except KernelError as error:
            self._report(str(error))
            if not self._ready.done():
                self._ready.set_exception(error)

    def _run(self) -> None:
        self._start_kernel()
        while (item := self._parts.inbox.next_item("python")) is not None:
            try:
                if item.work is not None:
                    item.work()
                else:
                    self._parts.cells.run(item.text)
            except Exception as error:  # the thread's outermost frame
                self._report(f"The cell could not be run: {type(error).__name__}: {error}")

    def _report(self, problem: str) -> None:
        emit(self._log, Notice(problem, level="error"))


MOST_WAITING = 5
"""Not counting kernels that run a cell."""

_CODE = 60
_Kernel = WaitingKernel | KernelNote


def waiting_remote_kernels() -> list[KernelNote]:
    """Return the kernels on other machines whose sessions are not open; they may have ended."""
    open_now = locked_sessions()
    return [noted for noted in noted_kernels() if noted.session not in open_now]


def local_detached_kernels() -> list[WaitingKernel]:
    """Return this machine's kernels without a screen, longest wait first."""
    open_now = locked_sessions()
    alone = (kernel for kernel in waiting_kernels() if not kernel.has_host)
    found = (kernel for kernel in alone if kernel.session not in open_now)
    return sorted(found, key=lambda kernel: kernel.since)


def stop_surplus_kernels() -> None:
    idle = [kernel for kernel in local_detached_kernels() if kernel.has_run and not kernel.cell]
    for kernel in idle[: max(0, len(idle) - MOST_WAITING)]:
        with suppress(OSError):
            stop(kernel)


def summarize_detached_kernels() -> dict[str, str]:
    """Return what each kernel without a screen is doing, by session."""
    kernels = chain[_Kernel](waiting_remote_kernels(), local_detached_kernels())
    return {kernel.session: describe_kernel(kernel) for kernel in kernels}


def stop_detached_kernel(session: str) -> str:
    """Stop this machine's waiting kernel of a session; returns a sentence."""
    found = [kernel for kernel in local_detached_kernels() if kernel.session == session]
    if not found:
        return f"No kernel of this machine waits for it. To end one elsewhere: mahtab-tui sessions stop {session}"
    try:
        ended = stop(found[0])
    except OSError as error:
        return f"Its kernel cannot be reached: {error.strerror or error}."
    process = found[0].pid
    return (
        "Its kernel has ended." if ended else f"Its kernel (process {process}) has not ended yet."
    )


def describe_detached_kernels() -> Iterator[str]:
    """Yield a sentence for each kernel without a screen."""
    local = [kernel for kernel in local_detached_kernels() if kernel.has_run]
    for kernel in chain[_Kernel](local, waiting_remote_kernels()):
        id, what = kernel.session, f"{describe_kernel(kernel)}{foreign_folder(kernel.session)}"
        how = f"Resume: mahtab-tui --resume {id}. Stop: mahtab-tui sessions stop {id}"
        yield f"Session {id} has a kernel in the background, {what}. {how}"


def describe_kernel(kernel: _Kernel) -> str:
    age = _format_age(time.time() - kernel.since)
    if isinstance(kernel, KernelNote):
        return f"started {age} ago on {one_line(kernel.station.label)}"
    use = _use(kernel.pid)
    if not kernel.cell:
        return f"idle for {age}, {use}"
    code = _running_code(kernel)
    return f"running cell {kernel.cell} for {age}, {use}{f': {code}' if code else ''}"


def foreign_folder(session: str) -> str:
    """Return a session's folder if it is not the current one."""
    with suppress_all_but_corruption():
        for row in list_sessions(database(), None, begins=session):
            if row.id == session and row.project != str(Path.cwd()):
                return f" in {one_line(row.project)}"
    return ""


def _use(pid: int) -> str:
    """Describe the CPU time and the memory of a process."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError, IndexError):
        return "? MB"
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return f"CPU {_format_age(seconds)}, {pages * 4096 / 2**20:,.0f} MB"


def _running_code(kernel: WaitingKernel) -> str:
    code = ""
    with suppress_all_but_corruption():
        for kind in (UserReplIn, AssistantReplIn):
            for each in records_with_tag(database(), kernel.session, kind.tag):
                if isinstance(each, ReplIn) and each.cell == kernel.cell:
                    code = code or " ".join(each.text.split())
    return one_line(code if len(code) <= _CODE else f"{code[: _CODE - 1]}…")


def _format_age(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    if minutes < 1:
        return f"{rest} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class KernelControl:
    """The user's actions on the kernel. Methods return immediately."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._kernel = parts.masked

    def kill(self) -> None:
        self._on_thread("The kernel could not be killed", self._kernel.kill)

    def reset(self) -> None:
        self._on_thread("The kernel could not be reset", self._parts.cells.reset_kernel)

    def activate(self, python: str) -> None:
        change = partial(self._kernel.activate, python)
        self._on_thread("The interpreter was not changed", self._parts.cells.change_kernel, change)

    def move(self, address: str) -> None:
        """Switch to a kernel at another address; empty for this machine."""

        def work() -> None:
            if self._parts.make_kernel is None:
                raise KernelError("The kernel of this session belongs to another program.")
            new = self._parts.make_kernel(address)
            text = f"Switched to {address or 'this machine'}."
            self._parts.cells.change_kernel(lambda: self._kernel.replace_kernel(new, text))

        self._on_thread("The kernel was not moved", work)

    def change_directory(self, path: str) -> None:
        def work() -> None:
            folder = self._kernel.change_directory(path)
            emit(self._parts.log, Notice(f"The working directory is now {folder}."))

        self._on_thread("The working directory was not changed", work)

    def redo(self) -> None:
        self._on_thread("Nothing was redone", self._parts.undo.redo)

    def mark_private(self, name: str, private: bool) -> None:
        self._on_thread("Nothing was marked", self._parts.private.mark, name, private)

    def _on_thread(self, failure: str, work: Callable[..., object], *args: object) -> None:
        def guarded() -> None:
            try:
                work(*args)
            except KernelError as error:
                emit(self._parts.log, Notice(f"{failure}. {error}", level="error"))

        start_thread("kernel-work", guarded)
