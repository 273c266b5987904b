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
from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.host import KernelHost, host_definitions
from mahtab_tui.kernel.jupyter.calls import KernelCalls
from mahtab_tui.kernel.jupyter.cell import JupyterCell
from mahtab_tui.kernel.jupyter.messages import (
    Channel,
    Message,
    execute_content,
    parent_id,
    read_expression,
)
from mahtab_tui.kernel.messages import KernelReady, checked
from mahtab_tui.kernel.operations import Operation, Operations, T
from mahtab_tui.kernel.requests import ControlRequests
from mahtab_tui.kernel.running_cell import RunningCell
from mahtab_tui.kernel.values import CellResult
from mahtab_tui.system import start_thread, wait_for_result
from mahtab_tui.worker.link.frames import Frame

if TYPE_CHECKING:
    from mahtab_tui.kernel.jupyter.local import ZmqConnection

READY_TIMEOUT_S = 60.0
"""Seconds for a kernel to answer for the first time."""
RETRY_S = 1.0
"""Seconds between attempts to get an answer, and between checks whether one is missing."""
RECEIVED_POLL_S = 0.02
"""Seconds between looks at whether the kernel has answered for the first time."""
TOKEN_BYTES = 16
"""Random bytes of the helper's token, and of the comm's id."""

PACKAGE_NAME = "_mahtab_tui"
"""The worker package inside the kernel."""
TARGET = "mahtab-tui"
"""The name of the comm by which requests reach the kernel's helper."""
_HELPER = f"__import__('sys').modules['{PACKAGE_NAME}.jupyter_helper']"
CELL_EXPRESSIONS = {"mahtab": f"{_HELPER}.ended()"}
"""Evaluated by the kernel after each cell."""

# The package is loaded under another name, so that it does not hide an installed mahtab-tui.
_LOADER = f"""\
import os, sys
if "{PACKAGE_NAME}.jupyter_helper" not in sys.modules:
    package = type(sys)("{PACKAGE_NAME}")
    package.__path__ = [{os.path.dirname(worker.__file__)!r}]
    sys.modules["{PACKAGE_NAME}"] = package
    path = sys.path
    # Modules next to the user's data must not be mistaken for the standard library's.
    sys.path = [entry for entry in path if entry not in ("", os.getcwd())]
    try:
        __import__("{PACKAGE_NAME}.jupyter_helper")
    finally:
        sys.path = path
"""
_LOAD = f"__import__('builtins').exec({_LOADER!r}, {{'__name__': '{PACKAGE_NAME}_loader'}})"


class JupyterConversation:
    """The messages to and from one process of a Jupyter kernel, until it ends."""

    def __init__(self, connection: ZmqConnection, host: KernelHost) -> None:
        """Prepare a conversation.

        Args:
            connection: The connection, which must be open.
            host: Serves the calls of code in the kernel.
        """
        self._connection = connection
        self._host = host
        self._token = f"\x02mahtab-tui:{secrets.token_hex(TOKEN_BYTES)}:"
        """Marks messages of the helper."""
        self._lock = threading.Lock()
        self._replies: dict[str, Future[Mapping[str, Any]]] = {}
        """Replies that are waited for, by the id of the request."""
        self._cell: JupyterCell | None = None
        """The running cell."""
        self._cell_requests: set[str] = set()
        """Ids of the requests that have run cells, whose threads may still print."""
        self._calls = KernelCalls(host, self._token, self._send_line, self._echo)
        self._requests = ControlRequests(self._ask_helper)
        self._received = threading.Event()
        """Set once something was published."""
        self._comm = secrets.token_hex(TOKEN_BYTES)
        """The id of the comm by which requests reach the helper."""
        self._end_reason = ""
        """Why the kernel cannot be reached any more, as a sentence; empty while it can."""
        self.ready = KernelReady("", "", "", 0)
        self.cwd = ""

    def begin(self) -> None:
        """Wait until the kernel answers, and load the helper into it. Raises `KernelError`."""
        self._check_implementation(self._wait_for_info())
        self._load_helper()
        definitions = host_definitions(self._host)
        self._requests.ask(Operations.functions, functions=definitions.functions)
        if definitions.servers:
            self._requests.ask(Operations.servers, servers=definitions.servers)

    def _check_implementation(self, info: Mapping[str, Any]) -> None:
        """Raise `KernelError` for a kernel that is not ipykernel.

        Args:
            info: The kernel's reply to ``kernel_info_request``.
        """
        if info.get("implementation") == "ipython":
            return
        language = info.get("language_info")
        is_python = isinstance(language, Mapping) and language.get("name") == "python"
        reason = "is Python, but not ipykernel" if is_python else "does not run Python"
        raise KernelError(f"{self._connection.label} {reason}. Use a kernel that is ipykernel.")

    def _load_helper(self) -> None:
        """Load the helper into the kernel, and open the comm by which requests reach it."""
        begin = f"{_HELPER}.begin({self._token!r}, {str(self._connection.session.session)!r})"
        content = execute_content("", {"load": _LOAD, "hello": begin}, silent=True)
        reply = self._request("execute_request", content).result(READY_TIMEOUT_S)
        self.ready = checked(KernelReady, read_expression(reply, "hello"))
        self.cwd = self.ready.cwd
        comm = {"comm_id": self._comm, "target_name": TARGET, "data": {}}
        self._send("shell", "comm_open", comm)

    def _wait_for_info(self) -> Mapping[str, Any]:
        """Request the info until both its reply and its output arrive."""
        # The first published messages are lost if they are sent before the channel is connected.
        deadline = time.monotonic() + READY_TIMEOUT_S
        last_request = 0.0
        replies: list[Future[Mapping[str, Any]]] = []
        while time.monotonic() < deadline:
            if time.monotonic() - last_request > RETRY_S:
                last_request = time.monotonic()
                replies.append(self._request("kernel_info_request", {}))
            if self._received.wait(RECEIVED_POLL_S):
                done_replies = wait(replies, 0).done
                if done_replies:
                    return done_replies.pop().result()
            end_reason = self._connection.end_reason()
            if end_reason:
                raise KernelError(end_reason)
        raise KernelError(
            f"{self._connection.label} has not answered for {READY_TIMEOUT_S:.0f} s."
            " Perhaps it runs another program's cell."
        )

    def run(self, code: str, running: RunningCell, *, quiet: bool = False) -> CellResult:
        """Run a cell, and wait for its end.

        Args:
            code: The code.
            running: Gets the output and the result.
            quiet: Whether it is not a cell of the user's.
        """
        try:
            code.encode()
        except UnicodeEncodeError:
            cell = JupyterCell(running, "")
            cell.fail("SyntaxError", "the cell has a character that UTF-8 cannot encode")
            cell.finish({}, 0.0)
        else:
            content = execute_content(code, CELL_EXPRESSIONS, silent=quiet)
            self._run(self._message("execute_request", content), running)
        return wait_for_result(running.result)

    def _run(self, message: Mapping[str, Any], running: RunningCell) -> None:
        """Send the message that runs a cell, and wait until its result is set."""
        start = time.perf_counter()
        request = str(message["header"]["msg_id"])
        cell = JupyterCell(running, request)
        try:
            with self._lock:
                if self._end_reason:
                    raise KernelError(self._end_reason)
                self._cell = cell
                self._cell_requests.add(request)
            self._connection.send("shell", message)
            while not wait([cell.replied], RETRY_S).done:
                cell.expect_reply()
            reply = cell.replied.result()
            cell.show_help()
            if cell.has_called_exit:
                self._calls.quit()
            cell.finish(self._changes(reply), time.perf_counter() - start)
        except KernelError as error:
            if not running.result.done():
                running.fail(Status.DIED, str(error))
        finally:
            self._calls.end()
            self._cell = None

    def interrupt(self, number: int | None = None) -> bool:
        """Interrupt the running cell on a thread.

        Returns False if no cell runs, or another one than that of the number.
        """
        cell = self._cell
        if cell is None or number not in (None, cell.running.cell):
            return False
        cell.running.interrupting = True
        start_thread("mahtab-jupyter-interrupt", self._interrupt)
        return True

    def _interrupt(self) -> None:
        try:
            self._connection.interrupt()
        except KernelError as error:
            self._host.background_output(f"{error}\n")

    def _changes(self, reply: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the changes by a cell; empty if the kernel does not answer."""
        try:
            # The kernel evaluates expressions only after a cell that succeeded.
            if reply.get("status") == "ok":
                changes = checked(dict[str, Any], read_expression(reply, "mahtab"))
            else:
                changes = self._requests.ask(Operations.ended)
        except KernelError:
            return {}
        self.cwd = str(changes.get("cwd") or self.cwd)
        return changes

    def ask(self, operation: Operation[T], timeout: float | None = None, **fields: Any) -> T:
        """Ask the helper, which answers only between cells. Raises `KernelError`."""
        if self._end_reason:
            raise KernelError(self._end_reason)
        if self._cell is not None:
            raise KernelError(
                "A cell is running. This kernel reports its variables only between cells."
            )
        return self._requests.ask(operation, timeout, **fields)

    def send_size(self, columns: int, lines: int) -> None:
        """Tell the helper the size of the screen, in cells. No answer is waited for."""
        if not self._end_reason:
            with suppress(KernelError):
                self._ask_helper({"op": "size", "id": 0, "columns": columns, "lines": lines})

    def leave(self) -> None:
        """Remove the helper from a kernel that continues. Raises `KernelError`."""
        if not self._end_reason:
            self._requests.ask(Operations.leave)

    def end(self, status: Status, reason: str) -> None:
        """End the conversation.

        Args:
            status: The status of the running cell.
            reason: Why it ends, as a sentence.
        """
        with self._lock:
            if self._end_reason:
                return
            self._end_reason = reason
            cell = self._cell
            self._cell = None
            replies = list(self._replies.values())
            self._replies.clear()
        if cell is not None and not cell.running.result.done():
            cell.running.fail(status, reason)
        if cell is not None and not cell.replied.done():
            cell.replied.set_exception(KernelError(reason))
        for reply in replies:
            reply.set_exception(KernelError(reason))
        self._requests.end(reason)
        self._calls.end()

    # Messages from the kernel, on the connection's threads

    def on_message(self, channel: Channel, message: Message) -> None:
        """Handle a message, which may have any form."""
        header = message.get("header")
        content = message.get("content")
        if not isinstance(header, Mapping) or not isinstance(content, Mapping):
            return
        kind = str(header.get("msg_type"))
        parent = parent_id(message)
        if channel == "iopub":
            self._on_publish(kind, parent, content)
        elif channel == "stdin" and kind == "input_request":
            self._on_input_request(content)
        elif kind.endswith("_reply"):
            self._on_reply(parent, content)

    def _on_input_request(self, content: Mapping[str, Any]) -> None:
        """Serve a prompt, or a call of the helper, which looks like one."""
        prompt = str(content.get("prompt", ""))
        try:
            self._calls.on_prompt(prompt, bool(content.get("password")))
        except (ValueError, RecursionError, KernelError):
            # A forged request of the helper still needs an answer: its code waits.
            self._send_line("{}")

    def _on_reply(self, parent: str, content: Mapping[str, Any]) -> None:
        """Give a reply to whoever waits for it.

        Args:
            parent: The id of the request.
            content: The content of the reply.
        """
        with self._lock:
            reply = self._replies.pop(parent, None)
            cell = self._cell
        if reply is not None:
            reply.set_result(content)
        elif cell is not None and cell.request == parent:
            cell.reply(content)

    def _on_publish(self, kind: str, parent: str, content: Mapping[str, Any]) -> None:
        """Handle a message that the kernel sends to all its clients.

        Args:
            kind: Its type.
            parent: The id of the request during which it was sent.
            content: Its content.
        """
        self._received.set()
        cell = self._cell
        if kind == "mahtab_tui":
            # The helper's own message; other programs at the kernel could send one without the token.
            if content.get("token") == self._token:
                self._calls.end()
        elif kind == "comm_msg" and content.get("comm_id") == self._comm:
            with suppress(KeyError, TypeError, ValueError, RecursionError, KernelError):
                frame = json.loads(content["data"]["frame"])
                self._requests.on_reply(checked(dict[str, Any], frame))
        elif cell is not None and parent == cell.request:
            cell.add_message(kind, content)
        elif kind == "stream" and parent in self._cell_requests:
            self._host.background_output(str(content.get("text", "")))

    def _message(self, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._connection.session.msg(kind, content=dict(content)))

    def _request(self, kind: str, content: Mapping[str, Any]) -> Future[Mapping[str, Any]]:
        """Send a request, and return what becomes the content of its reply."""
        message = self._message(kind, content)
        reply: Future[Mapping[str, Any]] = Future()
        with self._lock:
            if self._end_reason:
                raise KernelError(self._end_reason)
            self._replies[str(message["header"]["msg_id"])] = reply
        self._connection.send("shell", message)
        return reply

    def _send(self, channel: Channel, kind: str, content: Mapping[str, Any]) -> None:
        self._connection.send(channel, self._message(kind, content))

    def _ask_helper(self, frame: Frame) -> None:
        """Send a request to the helper. Raises `ValueError` if it cannot be sent."""
        data = {"frame": json.dumps(frame)}
        self._send("shell", "comm_msg", {"comm_id": self._comm, "data": data})

    def _send_line(self, line: str) -> None:
        """Answer a request for input."""
        # Half of a surrogate pair cannot be sent.
        encodable_line = line.encode(errors="replace").decode()
        with suppress(KernelError):
            self._send("stdin", "input_reply", {"value": encodable_line})

    def _echo(self, text: str) -> None:
        cell = self._cell
        if cell is not None:
            cell.add_message("stream", {"text": text})
