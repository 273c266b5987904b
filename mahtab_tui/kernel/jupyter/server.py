"""Kernels on a Jupyter server, hub or gateway, using jupyter-kernel-client (REST and a
WebSocket)."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, get_args

import requests
from jupyter_kernel_client.manager import KernelHttpManager, fetch

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.jupyter.cell import Channel, ConnectionLost, OnMessage
from mahtab_tui.kernel.jupyter.kernel import ServerAddress
from mahtab_tui.system import start_thread

ANSWER = 15.0
LEAVE = 5.0
START = 90.0
RECONNECT = 2
SILENT = 10
"""Seconds between two pings. The connection counts as lost after two without a reply."""
_TRUST = "If you run its certificate authority, set SSL_CERT_FILE and REQUESTS_CA_BUNDLE to a file with its certificate."
"""Each variable is read by another library."""
KERNEL_CHECK_INTERVAL = 5.0
_LOOK = 0.5


class ServerConnection:
    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self.label = address.label
        self.address = address.text
        self.ours = not address.kernel_id
        self._manager: Any = None
        self._client: Any = None
        self._next_check = 0.0
        self._since = 0.0
        self.next_try = 0.0
        self._on_message: OnMessage = lambda channel, message: None
        self._closed = threading.Event()

    def open(self, on_message: OnMessage) -> None:
        self._on_message = on_message
        name = self._kernelspec()
        kernel_id = self._address.kernel_id
        if kernel_id:
            self._ask(f"kernels/{kernel_id}", f"find the kernel {kernel_id}")
        # The library's own logger writes to the terminal, and could reveal the token.
        log = logging.Logger("mahtab-jupyter", logging.CRITICAL + 1)
        timing = {"reconnect_interval": RECONNECT, "timeout": ANSWER, "ping_interval": SILENT}
        manager = self._manager = KernelHttpManager(
            kernel_id=kernel_id or None,
            server_url=self._address.url,
            token=self._address.token,
            client_kwargs={"log": log, **timing},
            log=log,
        )
        if not kernel_id:
            self._do("start a kernel", lambda: manager.start_kernel(name, path="", timeout=START))
        self._client, self._since = self._manager.client, time.time()
        # The library's thread must not keep the program from ending, and threads inherit the daemon
        # flag from the thread that starts them.
        start_thread("mahtab-jupyter-start", self._client.start_channels).join(ANSWER + 1)
        if not self._client.channels_running:
            trust = f" {_TRUST}" if self._address.url.startswith("https:") else ""
            raise KernelError(
                f"{self.label} has started a kernel, but refuses a connection to it.{trust}"
            )
        connection = self._client.kernel_socket
        connection.on_message = partial(_receive_with_ack, connection.on_message)
        for channel in get_args(Channel):
            start_thread("mahtab-jupyter", self._read, self._client, channel, on_message)

    @property
    def session(self) -> Any:
        return self._client.session

    def send(self, channel: Channel, message: Mapping[str, Any]) -> None:
        try:
            getattr(self._client, f"{channel}_channel").send(dict(message))
        except Exception as error:
            raise ConnectionLost(
                f"The connection to {self.label} is lost ({type(error).__name__})."
            ) from None

    def ended(self) -> str:
        connection = self._client.kernel_socket
        # The library does not tell that it is reconnecting.
        websocket = getattr(connection, "sock", None)
        if websocket is not None and websocket.connected:
            self._next_check = self.next_try = 0.0
            if connection.last_ping_tm - max(connection.last_pong_tm, self._since) > 1.5 * SILENT:
                with suppress(OSError):
                    websocket.sock.shutdown(socket.SHUT_RDWR)
            return ""
        self._since = time.time()
        if self.next_try < time.time():
            self.next_try = time.time() + RECONNECT
        if time.monotonic() < self._next_check:
            return ""
        first, self._next_check = not self._next_check, time.monotonic() + KERNEL_CHECK_INTERVAL
        return "" if first else self._why_gone()

    def _why_gone(self) -> str:
        if not self._manager.has_kernel:
            return f"{self.label} did not start a kernel."
        url = f"{self._address.url}/api/kernels/{self._manager.kernel['id']}"
        try:
            fetch(url, token=self._address.token, timeout=RECONNECT)
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code == 404:
                return f"{self.label} has ended the kernel."
        except (requests.RequestException, ValueError):
            pass
        return ""

    def interrupt(self) -> None:
        self._do("interrupt the kernel", lambda: self._manager.interrupt_kernel(timeout=ANSWER))

    def restart(self) -> None:
        if not self.ours:
            raise KernelError("Only the program that started this kernel should restart it.")
        if self._why_gone():
            self._hang_up()
            self.open(self._on_message)
        else:
            self._do("restart the kernel", lambda: self._manager.restart_kernel(timeout=START))

    def close(self) -> None:
        self._closed.set()
        manager = self._manager
        if self.ours and manager is not None and manager.has_kernel:
            with suppress(KernelError):
                self._do("end the kernel", lambda: manager.shutdown_kernel(now=True, timeout=LEAVE))
        self._hang_up()

    def _hang_up(self) -> None:
        if self._client is not None:
            start_thread("mahtab-jupyter-stop", self._client.stop_channels).join(1.0)

    def _read(self, client: Any, channel: Channel, on_message: OnMessage) -> None:
        get = getattr(client, f"get_{channel}_msg")
        while self._client is client and not self._closed.is_set():
            with suppress(queue.Empty):
                message = get(timeout=_LOOK)
                if isinstance(message, Mapping):
                    on_message(channel, message)

    def _kernelspec(self) -> str:
        listed = self._ask("kernelspecs", "list its kernels")
        specs = listed.get("kernelspecs") if isinstance(listed, Mapping) else None
        if not isinstance(listed, Mapping) or not isinstance(specs, Mapping):
            raise KernelError(f"{self.label} is not a Jupyter server.")
        name = self._address.name or str(listed.get("default"))
        if name not in specs:
            names = ", ".join(sorted(map(str, specs))) or "none"
            raise KernelError(f"{self.label} has no kernel named {name}; it has {names}.")
        return name

    def _ask(self, path: str, what: str) -> Any:
        url = f"{self._address.url}/api/{path}"
        return self._do(what, lambda: fetch(url, token=self._address.token, timeout=ANSWER).json())

    def _do(self, what: str, work: Any) -> Any:
        """Raises `KernelError` with a sentence that does not contain the token."""
        try:
            return work()
        except requests.HTTPError as error:
            code = 0 if error.response is None else error.response.status_code
            if code in (401, 403):
                raise KernelError(
                    f"{self.label} refuses the token: give ?token=… in the address, or the setting jupyter_token."
                ) from None
            raise KernelError(
                f"{self.label} could not {what}: it answered with HTTP status {code}."
            ) from None
        except requests.Timeout:
            raise KernelError(f"{self.label} took too long to {what}.") from None
        except requests.exceptions.SSLError:
            raise KernelError(f"The certificate of {self.label} is not trusted. {_TRUST}") from None
        except requests.ConnectionError:
            raise KernelError(f"There is no server at {self.label}.") from None
        except (requests.RequestException, ValueError):
            raise KernelError(f"{self.label} is not a Jupyter server.") from None


def _receive_with_ack(
    on_message: Callable[[Any, Any], None], connection: Any, message: Any
) -> None:
    """Acknowledge immediately: otherwise Linux waits for 40 ms, and the server delays its next
    message until then."""
    if hasattr(socket, "TCP_QUICKACK"):
        with suppress(OSError, AttributeError):
            connection.sock.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    on_message(connection, message)
