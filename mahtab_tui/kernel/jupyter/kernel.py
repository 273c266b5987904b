"""A Jupyter kernel as the session's kernel."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qs, urlencode, urlsplit

from mahtab_tui.kernel.base import (
    Kernel,
    KernelError,
    KernelHost,
    KernelInfo,
    KernelState,
    OnDisplay,
    OnOutput,
    Operation,
    Operations,
    T,
    UndoAnswer,
)
from mahtab_tui.kernel.cells import RunningCell
from mahtab_tui.kernel.jupyter.cell import Channel, KernelConnection, Message
from mahtab_tui.kernel.jupyter.conversation import Conversation
from mahtab_tui.kernel.process import CLOSED, startup_failure
from mahtab_tui.kernel.requests import KernelReady
from mahtab_tui.kernel.values import (
    RESET,
    CellResult,
    Completion,
    Completions,
    Explanation,
    Lock,
    Status,
    UndoStep,
    Variable,
)
from mahtab_tui.system import start_thread

LOCAL, SERVER, EXISTING = "jupyter:", "jupyter+", "existing:"
WANTED = "give jupyter:NAME, jupyter+https://HOST/PATH or existing:CONNECTION.json"


class ServerAddress(NamedTuple):
    url: str
    token: str
    name: str
    kernel_id: str

    @property
    def label(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.netloc}{parts.path}"

    @property
    def text(self) -> str:
        chosen = {"kernel": self.name, "id": self.kernel_id}
        query = urlencode({name: value for name, value in chosen.items() if value})
        return f"{SERVER}{self.url}{'?' * bool(query)}{query}"


def parse(text: str, token: str = "") -> ServerAddress | str:
    """Parse an address; returns a name on this machine, or a server. token: for a server whose
    address contains none. Raises `KernelError`, which never contains a token."""
    for kind in (EXISTING, LOCAL):
        if text.startswith(kind):
            if name := text.removeprefix(kind).strip():
                return name
            raise KernelError(f"{kind} names no kernel: {WANTED}.")
    try:
        parts = urlsplit(text.removeprefix(SERVER))
        host, query = parts.hostname, parse_qs(parts.query)
        _ = parts.port
    except ValueError:
        raise KernelError(f"The address of the server cannot be read: {WANTED}.") from None
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        raise KernelError(
            f"The address of the server cannot be read: {WANTED}, with the token as ?token=… or in the setting jupyter_token."
        )
    if unknown := sorted(query.keys() - {"token", "kernel", "id"}):
        raise KernelError(
            f"The address of a server takes ?token=, &kernel= and &id=, not {', '.join(unknown)}."
        )
    values = {name: each[-1] for name, each in query.items()}
    url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return ServerAddress(
        url, values.get("token", token), values.get("kernel", ""), values.get("id", "")
    )


def find_token(text: str) -> str:
    _, found, rest = text.partition("?") if text.startswith(SERVER) else ("", "", "")
    return (parse_qs(rest).get("token") or [""])[-1] if found else ""


_STARTED = "Started a new kernel; its namespace is empty."
POLL_INTERVAL = 0.5
MOST = 200


class JupyterKernel(Kernel):
    cannot_lock = "it runs in a Jupyter kernel"
    cannot_undo = "a Jupyter kernel is not ours to fork"
    _cannot_save = "The variables of a Jupyter kernel are not saved."

    def __init__(self, wire: KernelConnection, startup: str = "") -> None:
        self._wire = wire
        self._startup = startup if wire.ours else ""
        self._turn = threading.Lock()
        self._swap = threading.Lock()
        self._conversation: Conversation | None = None
        self._failure = "The kernel was not started."
        self._closed = threading.Event()
        self._size = (80, 24)

    def start(self, host: KernelHost) -> None:
        self._host = host
        self._report(KernelState.STARTING, "")
        try:
            with self._swap:
                self._wire.open(self._on_message)
                self._begin()
        except KernelError as error:
            self._failure = str(error)
            self._wire.close()
            self._report(KernelState.DEAD, "")
            raise
        start_thread("mahtab-jupyter-watch", self._watch)
        self._report(KernelState.IDLE, self._run_startup())

    def execute(
        self,
        code: str,
        *,
        cell: int,
        on_output: OnOutput,
        limit: int | None = None,
        nested: bool = False,
        on_display: OnDisplay | None = None,
        lock: Lock | None = None,
    ) -> CellResult:
        self._refuse_lock(lock)
        running = RunningCell(cell, on_output, limit, on_display)
        with nullcontext() if nested else self._turn:
            with self._swap:
                talk = self._conversation
            if talk is None:
                return CellResult(cell, Status.DIED, "", (), 0.0, (), self._failure)
            with self._busy(nested):
                return (talk.run_nested if nested else talk.run)(code, running)

    def interrupt(self) -> bool:
        talk = self._conversation
        return talk is not None and talk.interrupt()

    def kill(self) -> None:
        self._replace("The kernel was killed.", _STARTED)

    def reset(self) -> None:
        self._replace(RESET, "Started a fresh kernel; its namespace is empty.")

    def activate(self, python: str) -> NoReturn:
        raise KernelError(
            "A Jupyter kernel has its own interpreter. Start mahtab-tui with another --kernel instead."
        )

    def change_directory(self, path: str) -> str:
        talk = self._require()
        talk.cwd = talk.ask(Operations.change_directory, path=path)
        return talk.cwd

    def set_size(self, columns: int, lines: int) -> None:
        self._size = (columns, lines)
        if self._conversation is not None:
            self._conversation.send_size(columns, lines)

    def set_reload(self, on: bool) -> None: ...

    def variables(self) -> list[Variable]:
        talk = self._conversation
        return [] if talk is not None and talk.ready is None else super().variables()

    def complete(self, code: str, cursor: int) -> Completions:
        talk = self._require()
        if talk.ready is not None:
            return super().complete(code, cursor)
        reply = talk.request(
            "complete_request",
            {"code": code, "cursor_pos": cursor},
            Operations.complete.timeout,
        )
        start, matches = reply.get("cursor_start"), reply.get("matches")
        if (
            not isinstance(start, int)
            or not isinstance(matches, list)
            or not 0 <= start <= cursor
            or reply.get("cursor_end", cursor) != cursor
        ):
            return Completions(cursor, (), 0)
        return Completions(
            start,
            tuple(Completion(str(each), str(each), "name", "") for each in matches[:MOST]),
            max(0, len(matches) - MOST),
        )

    def explain(self, code: str, cursor: int) -> Explanation | None:
        return None if self._require().ready is None else super().explain(code, cursor)

    def undo_steps(self) -> tuple[UndoStep, ...]:
        return ()

    def _undo(self, operation: Operation[UndoAnswer], cell: int) -> NoReturn:
        raise KernelError(f"Cells cannot be undone here, because {self.cannot_undo}.")

    def info(self) -> KernelInfo:
        return self._info_as(self._state)

    def close(self, *, leave: bool = False, on_purpose: bool = False) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        with self._swap:
            talk, self._conversation = self._conversation, None
            self._failure = CLOSED
            if talk is not None and not self._wire.ours:
                with suppress(KernelError, TimeoutError):
                    talk.leave()
            if talk is not None:
                talk.end(Status.KILLED, CLOSED)
                self._wire.close()
        self._report(KernelState.DEAD, "")

    # Life cycle of the kernel

    def _begin(self) -> None:
        talk = Conversation(self._wire, self._host)
        # On a thread, because the connection's must keep reading.
        talk.on_dead = lambda how, restarts: start_thread(
            "mahtab-jupyter-death", self._on_death, how, talk, restarts
        )
        self._conversation = talk
        try:
            talk.begin()
        except (KernelError, TimeoutError) as error:
            self._conversation = None
            talk.end(Status.DIED, str(error))
            raise KernelError(str(error) or "The kernel does not answer.") from None
        talk.send_size(*self._size)

    def _run_startup(self) -> str:
        talk, startup = self._conversation, self._startup
        if talk is None or talk.ready is None or not startup:
            return ""
        result = talk.run(startup, RunningCell(0, lambda kind, text: None, None), quiet=True)
        if result.status is Status.OK:
            if result.output:
                self._host.background_output(result.output)
            return ""
        return startup_failure(result)

    def _replace(self, why: str, now: str) -> None:
        if self._closed.is_set():
            raise KernelError(CLOSED)
        if not self._wire.ours:
            self._wire.restart()
        with self._swap:
            talk, self._conversation = self._conversation, None
            if talk is not None:
                talk.end(Status.KILLED, why)
            self._host.kernel_state(self._info_as(KernelState.DEAD), why)
            self._start_again()
        self._report(KernelState.IDLE, f"{now} {self._run_startup()}".strip())

    def _start_again(self, *, restarts: bool = False) -> None:
        self._report(KernelState.STARTING, "")
        try:
            if not restarts:
                self._wire.restart()
            self._begin()
        except KernelError as error:
            self._failure = str(error)
            self._report(KernelState.DEAD, f"Could not start a new kernel: {error}")
            raise

    def _watch(self) -> None:
        lost, lost_at = False, 0.0
        while not self._closed.wait(POLL_INTERVAL):
            with self._swap:
                talk = self._conversation
            if talk is None:
                continue
            if how := self._wire.ended():
                self._on_death(how, talk)
            elif lost != bool(self._wire.next_try):
                lost = not lost
                gone = f"Lost the connection to {self._wire.label}. The kernel keeps running; what you run now is sent once you are reconnected."
                self._report(self._state, gone if lost else f"Reconnected to {self._wire.label}.")
                if lost:
                    lost_at = time.monotonic()
                else:
                    talk.on_reconnect(lost_at)

    def _on_death(self, how: str, talk: Conversation, restarts: bool = False) -> None:
        with self._swap:
            if talk is not self._conversation or self._closed.is_set():
                return
            self._conversation = None
            self._failure = how
            talk.end(Status.DIED, how)
            self._host.kernel_state(self._info_as(KernelState.DEAD), how)
            self._state = KernelState.DEAD
            if not self._wire.ours:
                return
            try:
                self._start_again(restarts=restarts)
            except KernelError:
                return
        self._report(KernelState.IDLE, f"{_STARTED} {self._run_startup()}".strip())

    def _on_message(self, channel: Channel, message: Message) -> None:
        talk = self._conversation
        if talk is not None:
            talk.on_message(channel, message)

    def _require(self) -> Conversation:
        talk = self._conversation
        if talk is None:
            raise KernelError(self._failure)
        return talk

    def _ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        return self._require().ask(operation, timeout, **fields)

    def _info_as(self, state: KernelState) -> KernelInfo:
        talk, wire = self._conversation, self._wire
        language = "" if talk is None else talk.language.lower()
        other = "" if language == "python" else language
        ready = KernelReady("", "", "", 0) if talk is None or talk.ready is None else talk.ready
        return KernelInfo(
            ready.python,
            ready.executable,
            "" if talk is None else talk.cwd,
            ready.pid,
            state,
            wire.label,
            wire.next_try,
            wire.address,
            other,
        )


INSTALL = "Kernels of Jupyter need its client libraries: install mahtab-tui[jupyter]."


def jupyter_kernel(text: str, token: str, cwd: str, startup: str) -> Kernel:
    """Raises `KernelError`."""
    address = parse(text, token)
    try:
        if isinstance(address, ServerAddress):
            from mahtab_tui.kernel.jupyter.server import ServerConnection

            return JupyterKernel(ServerConnection(address), startup)
        from mahtab_tui.kernel.jupyter.local import ExistingConnection, LocalConnection

        if text.startswith(EXISTING):
            return JupyterKernel(ExistingConnection(address))
        return JupyterKernel(LocalConnection(address, cwd), startup)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("mahtab_tui"):
            raise
        raise KernelError(INSTALL) from None
