"""The communication with a Jupyter kernel, from its start to its end."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import mahtab_tui.worker as worker
from mahtab_tui.kernel.base import (
    CellResult,
    KernelError,
    KernelHost,
    Operation,
    Operations,
    Status,
    T,
    host_definitions,
)
from mahtab_tui.kernel.cells import RunningCell
from mahtab_tui.kernel.jupyter.cell import Channel, JupyterCell, KernelCalls, Message, parent_id
from mahtab_tui.kernel.requests import ControlRequests, KernelReady, checked
from mahtab_tui.system import start_thread, wait_for_result
from mahtab_tui.worker.frames import Frame

if TYPE_CHECKING:
    from mahtab_tui.kernel.jupyter.local import ZmqConnection

NAME = "_mahtab_tui"
TARGET = "mahtab-tui"
_HELPER = f"__import__('sys').modules['{NAME}.jupyter_helper']"
ENDED_CODE = {"mahtab": f"{_HELPER}.ended()"}


_LOADER = f"""\
import os, sys
if "{NAME}.jupyter_helper" not in sys.modules:
    package = type(sys)("{NAME}")
    package.__path__ = [{os.path.dirname(worker.__file__)!r}]
    sys.modules["{NAME}"], path = package, sys.path
    # Modules next to the user's data must not be mistaken for the standard library's.
    sys.path = [each for each in path if each not in ("", os.getcwd())]
    try:
        __import__("{NAME}.jupyter_helper")
    finally:
        sys.path = path
"""
_LOAD = f"__import__('builtins').exec({_LOADER!r}, {{'__name__': '{NAME}_loader'}})"


def read_expression(reply: Mapping[str, Any], name: str) -> Any:
    """Return the JSON value of an expression. Raises `KernelError`."""
    expressions = reply.get("user_expressions")
    each = expressions.get(name) if isinstance(expressions, Mapping) else None
    each = each if isinstance(each, Mapping) else {}
    data = each.get("data")
    if each.get("status") == "ok" and isinstance(data, Mapping):
        with suppress(ValueError, RecursionError):
            return json.loads(str(data.get("text/plain")))
    failed = each.get("status") == "error"
    why = f"{each.get('ename')}: {each.get('evalue')}" if failed else "it does not answer"
    raise KernelError(f"The kernel's helper does not work ({why}).")


def _execution(code: str, expressions: Mapping[str, str], *, silent: bool) -> dict[str, Any]:
    return {
        "code": code,
        "silent": silent,
        "store_history": not silent,
        "user_expressions": dict(expressions),
        "allow_stdin": not silent,
        "stop_on_error": False,
    }


READY = 60.0
AGAIN = 1.0


class Conversation:
    def __init__(self, wire: ZmqConnection, host: KernelHost) -> None:
        self._wire = wire
        self._host = host
        self._token = f"\x02mahtab-tui:{secrets.token_hex(16)}:"
        self._lock = threading.Lock()
        self._replies: dict[str, Future[Mapping[str, Any]]] = {}
        self._cell: JupyterCell | None = None
        self._ours: set[str] = set()
        self._calls = KernelCalls(host, self._token, self._send_line, self._echo)
        self._requests = ControlRequests(self._ask_helper)
        self._received = threading.Event()
        self._comm = secrets.token_hex(16)
        self._over = ""
        self.ready = KernelReady("", "", "", 0)
        self.cwd = ""

    def begin(self) -> None:
        info = self._wait_for_info()
        if info.get("implementation") != "ipython":
            language = info.get("language_info")
            is_python = isinstance(language, Mapping) and language.get("name") == "python"
            reason = "is Python, but not ipykernel" if is_python else "does not run Python"
            raise KernelError(f"{self._wire.label} {reason}. Use a kernel that is ipykernel.")
        begin = f"{_HELPER}.begin({self._token!r}, {str(self._wire.session.session)!r})"
        content = _execution("", {"load": _LOAD, "hello": begin}, silent=True)
        reply = self._request("execute_request", content).result(READY)
        self.ready = checked(KernelReady, read_expression(reply, "hello"))
        self.cwd = self.ready.cwd
        opened = {"comm_id": self._comm, "target_name": TARGET, "data": {}}
        self._report("shell", "comm_open", opened)
        for op, definitions in host_definitions(self._host):
            self._requests.ask(getattr(Operations, op), None, **{op: definitions})

    def _wait_for_info(self) -> Mapping[str, Any]:
        """Request the info until both its reply and its output arrive."""
        deadline, last = time.monotonic() + READY, 0.0
        replies: list[Future[Mapping[str, Any]]] = []
        while time.monotonic() < deadline:
            if time.monotonic() - last > AGAIN:
                last = time.monotonic()
                replies.append(self._request("kernel_info_request", {}))
            if self._received.wait(0.02) and (done := wait(replies, 0).done):
                return done.pop().result()
            if how := self._wire.ended():
                raise KernelError(how)
        raise KernelError(
            f"{self._wire.label} has not answered for {READY:.0f} s. Perhaps it runs another program's cell."
        )

    def run(self, code: str, running: RunningCell, *, quiet: bool = False) -> CellResult:
        """quiet: it is not a cell of the user's."""
        start = time.perf_counter()
        try:
            code.encode()
        except UnicodeEncodeError:
            cell = JupyterCell(running, "")
            cell.fail("SyntaxError", "the cell has a character that UTF-8 cannot encode")
            cell.finish({}, 0.0)
            return wait_for_result(running.result)
        message = self._message("execute_request", _execution(code, ENDED_CODE, silent=quiet))
        request = str(message["header"]["msg_id"])
        cell = JupyterCell(running, request)
        try:
            with self._lock:
                if self._over:
                    raise KernelError(self._over)
                self._cell = cell
                self._ours.add(request)
            self._wire.send("shell", message)
            while not wait([cell.replied], AGAIN).done:
                cell.expect_reply()
            reply = cell.replied.result()
            if cell.payloads():
                self._calls.quit()
            cell.finish(self._changes(reply), time.perf_counter() - start)
        except KernelError as error:
            if not running.result.done():
                running.lost(Status.DIED, str(error))
        finally:
            self._calls.end()
            self._cell = None
        return wait_for_result(running.result)

    def interrupt(self) -> bool:
        """Returns False if no cell runs."""
        cell = self._cell
        if cell is not None:
            cell.running.interrupting = True
            start_thread("mahtab-jupyter-interrupt", self._interrupt)
        return cell is not None

    def _interrupt(self) -> None:
        try:
            self._wire.interrupt()
        except KernelError as error:
            self._host.background_output(f"{error}\n")

    def _changes(self, reply: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            changes = (
                checked(dict[str, Any], read_expression(reply, "mahtab"))
                if reply.get("status") == "ok"
                else self._requests.ask(Operations.ended)
            )
        except KernelError:
            return {}
        self.cwd = str(changes.get("cwd") or self.cwd)
        return changes

    def ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        if self._over:
            raise KernelError(self._over)
        if self._cell is not None:
            raise KernelError(
                "A cell is running. This kernel reports its variables only between cells."
            )
        return self._requests.ask(operation, timeout, **fields)

    def send_size(self, columns: int, lines: int) -> None:
        if not self._over:
            with suppress(KernelError):
                self._ask_helper({"op": "size", "id": 0, "columns": columns, "lines": lines})

    def leave(self) -> None:
        if not self._over:
            self._requests.ask(Operations.leave)

    def end(self, status: Status, how: str) -> None:
        with self._lock:
            if self._over:
                return
            self._over = how
            cell, self._cell = self._cell, None
            replies, self._replies = self._replies, {}
        if cell is not None and not cell.running.result.done():
            cell.running.lost(status, how)
        if cell is not None and not cell.replied.done():
            cell.replied.set_exception(KernelError(how))
        for reply in replies.values():
            reply.set_exception(KernelError(how))
        self._requests.end(how)
        self._calls.end()

    # Messages from the kernel, on the connection's threads

    def on_message(self, channel: Channel, message: Message) -> None:
        header, content = message.get("header"), message.get("content")
        if not isinstance(header, Mapping) or not isinstance(content, Mapping):
            return
        kind, parent = str(header.get("msg_type")), parent_id(message)
        if channel == "iopub":
            self._on_publish(kind, parent, content)
        elif channel == "stdin" and kind == "input_request":
            try:
                prompt, password = str(content.get("prompt", "")), bool(content.get("password"))
                self._calls.on_prompt(prompt, password)
            except (ValueError, RecursionError, KernelError):
                self._send_line("{}")
        elif kind.endswith("_reply"):
            with self._lock:
                reply = self._replies.pop(parent, None)
                cell = self._cell
            if reply is not None:
                reply.set_result(content)
            elif cell is not None and cell.request == parent:
                cell.reply(content)

    def _on_publish(self, kind: str, parent: str, content: Mapping[str, Any]) -> None:
        self._received.set()
        cell = self._cell
        if kind == "mahtab_tui":
            if content.get("token") == self._token:
                self._calls.end()
        elif kind == "comm_msg" and content.get("comm_id") == self._comm:
            with suppress(KeyError, TypeError, ValueError, RecursionError, KernelError):
                frame = json.loads(content["data"]["frame"])
                self._requests.on_reply(checked(dict[str, Any], frame))
        elif cell is not None and parent == cell.request:
            cell.add_message(kind, content)
        elif kind == "stream" and parent in self._ours:
            self._host.background_output(str(content.get("text", "")))

    def _message(self, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._wire.session.msg(kind, content=dict(content)))

    def _request(self, kind: str, content: Mapping[str, Any]) -> Future[Mapping[str, Any]]:
        message = self._message(kind, content)
        reply: Future[Mapping[str, Any]] = Future()
        with self._lock:
            if self._over:
                raise KernelError(self._over)
            self._replies[str(message["header"]["msg_id"])] = reply
        self._wire.send("shell", message)
        return reply

    def _report(self, channel: Channel, kind: str, content: Mapping[str, Any]) -> None:
        self._wire.send(channel, self._message(kind, content))

    def _ask_helper(self, frame: Frame) -> None:
        """Raises `ValueError` if it cannot be sent."""
        data = {"frame": json.dumps(frame)}
        self._report("shell", "comm_msg", {"comm_id": self._comm, "data": data})

    def _send_line(self, line: str) -> None:
        with suppress(KernelError):
            self._report("stdin", "input_reply", {"value": line.encode(errors="replace").decode()})

    def _echo(self, text: str) -> None:
        if (cell := self._cell) is not None:
            cell.add_message("stream", {"text": text})
