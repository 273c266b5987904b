"""Kernels on this machine, using jupyter_client."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, get_args

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from jupyter_client.manager import KernelManager

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.jupyter.messages import Channel, OnMessage
from mahtab_tui.kernel.local_process import environment
from mahtab_tui.kernel.process_end import describe_end
from mahtab_tui.system import start_thread

MAX_ERROR_BYTES = 1_000
"""Bytes at the end of a kernel's errors in which the last line is searched."""
MAX_LAST_LINE_CHARS = 200
SHUTDOWN_WAIT_S = 1.5
"""Seconds for a kernel to end before it is killed."""
PIPE_READ_BYTES = 65_536
DEFAULT_SCREEN_SIZE = (80, 24)


class ZmqConnection:
    """The sockets of a Jupyter kernel, which one thread uses."""

    label: str
    address: str
    is_ours: bool
    """Whether we started the kernel, and therefore end it."""

    def __init__(self) -> None:
        self._client: BlockingKernelClient
        self._on_message: OnMessage
        self._outgoing: queue.SimpleQueue[tuple[Channel, Mapping[str, Any]] | None] = (
            queue.SimpleQueue()
        )
        """Messages to send; None marks the end."""
        self._lock = threading.Lock()
        """Held while the pipe's write end is used or closed."""
        # The ends of the pipe that wakes the thread; -1 while it does not run.
        self._wake_read = -1
        self._wake_write = -1
        self._thread: threading.Thread | None = None

    def open(self, on_message: OnMessage) -> None:
        """Start or join the kernel, and pass on its messages. Raises `KernelError`."""
        raise NotImplementedError

    def end_reason(self) -> str:
        """Return why the kernel cannot be reached any more, as a sentence; empty while it may."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """Interrupt the running cell. Raises `KernelError`."""
        raise NotImplementedError

    def restart(self) -> None:
        """Start a new process of a kernel that is ours. Raises `KernelError`."""
        raise NotImplementedError

    @property
    def session(self) -> Any:
        """The `jupyter_client.session.Session`, which makes messages."""
        return self._client.session

    def send(self, channel: Channel, message: Mapping[str, Any]) -> None:
        """Send a message, on the connection's thread. Raises `KernelError`."""
        if self._thread is None:
            raise KernelError("The kernel was not started.")
        self._outgoing.put((channel, message))
        self._wake()

    def close(self) -> None:
        """End the connection, and wait for its thread. May be called again."""
        self._outgoing.put(None)
        self._wake()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join()

    def _connect(self, client: BlockingKernelClient, on_message: OnMessage) -> None:
        self._client = client
        self._on_message = on_message
        # Sending without copying needs a zmq thread, which could outlive us.
        client.session.copy_threshold = sys.maxsize
        client.start_channels(hb=False)
        self._wake_read, self._wake_write = os.pipe()
        self._thread = start_thread("mahtab-jupyter", self._run)

    def _wake(self) -> None:
        with self._lock:
            if self._wake_write >= 0:
                os.write(self._wake_write, b"w")

    def _run(self) -> None:
        """Send and receive messages until the connection is closed."""
        channels: dict[Channel, Any] = {
            name: getattr(self._client, f"{name}_channel").socket for name in get_args(Channel)
        }
        poller = zmq.Poller()
        poller.register(self._wake_read, zmq.POLLIN)
        for socket in channels.values():
            poller.register(socket, zmq.POLLIN)
        try:
            while self._send_all(channels):
                ready = dict(poller.poll())
                if self._wake_read in ready:
                    os.read(self._wake_read, PIPE_READ_BYTES)
                for channel, socket in channels.items():
                    if socket in ready:
                        self._receive(channel, socket)
        finally:
            with self._lock:
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._wake_write = -1
            self._client.stop_channels()

    def _send_all(self, channels: Mapping[Channel, Any]) -> bool:
        """Send the waiting messages; returns False at the end."""
        while not self._outgoing.empty():
            item = self._outgoing.get()
            if item is None:
                return False
            channel, message = item
            # A message that cannot be encoded is dropped.
            with suppress(ValueError, TypeError):
                self._client.session.send(channels[channel], dict(message))
        return True

    def _receive(self, channel: Channel, socket: Any) -> None:
        while True:
            try:
                _, message = self._client.session.recv(socket)
            except (ValueError, TypeError, KeyError, RecursionError):
                continue
            if message is None:
                return
            self._on_message(channel, message)


class LocalConnection(ZmqConnection):
    """A kernel that we start, by the name of its kernelspec."""

    is_ours = True

    def __init__(self, name: str, cwd: str) -> None:
        super().__init__()
        self.label = f"jupyter:{name}"
        self.address = self.label
        self._name = name
        self._cwd = cwd
        self._manager: KernelManager
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (until `close`)

    def open(self, on_message: OnMessage) -> None:
        names = sorted(KernelSpecManager().find_kernel_specs())
        if self._name not in names:
            raise KernelError(
                f"Jupyter has no kernel named {self._name}; it has {', '.join(names) or 'none'}."
            )
        self._manager = KernelManager(kernel_name=self._name, shutdown_wait_time=SHUTDOWN_WAIT_S)
        try:
            self._manager.start_kernel(
                cwd=self._cwd,
                env=environment(*DEFAULT_SCREEN_SIZE),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
            )
        except (OSError, NoSuchKernel, RuntimeError, ValueError) as error:
            raise KernelError(f"The kernel {self._name} could not be started: {error}.") from None
        self._connect(self._manager.blocking_client(), on_message)

    def end_reason(self) -> str:
        if self._manager.is_alive():
            return ""
        error_bytes = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, error_bytes - MAX_ERROR_BYTES))
        errors = self._errors.read().decode(errors="replace")
        lines = [line for line in errors.splitlines() if line.strip() and "WARNING" not in line]
        last_line = ""
        if lines:
            last_line = f" (it said: {lines[-1][:MAX_LAST_LINE_CHARS].strip()})"
        process = getattr(self._manager.provisioner, "process", None)
        exit_code = getattr(process, "returncode", None)
        ending = "it has ended"
        if isinstance(exit_code, int):
            ending = describe_end(exit_code)
        return f"The kernel died: {ending}{last_line}."

    def interrupt(self) -> None:
        with suppress(RuntimeError, ProcessLookupError):
            self._manager.interrupt_kernel()

    def restart(self) -> None:
        try:
            self._manager.restart_kernel(now=True)
        except (OSError, RuntimeError) as error:
            raise KernelError(f"The kernel {self._name} could not be restarted: {error}.") from None

    def close(self) -> None:
        super().close()
        if self._errors.closed:
            return
        if self._thread is not None:
            with suppress(OSError, RuntimeError):
                self._manager.shutdown_kernel()
        self._errors.close()


class ExistingConnection(ZmqConnection):
    """A kernel started by another program, found by its connection file."""

    is_ours = False

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = file
        self.label = f"existing:{os.path.basename(file)}"
        self.address = f"existing:{file}"

    def open(self, on_message: OnMessage) -> None:
        from jupyter_client.connect import find_connection_file

        try:
            file = find_connection_file(os.path.expanduser(self._file))
        except OSError:
            raise KernelError(f"There is no connection file {self._file}.") from None
        client = BlockingKernelClient()
        try:
            client.load_connection_file(file)
            ports = [getattr(client, f"{name}_port") for name in (*get_args(Channel), "hb")]
            if not all(ports):
                raise ValueError("it names no ports")
        except Exception as error:
            raise KernelError(
                f"The connection file {self._file} is broken: {type(error).__name__}: {error}."
            ) from None
        self._connect(client, on_message)
        client.hb_channel.start()
        client.hb_channel.unpause()

    def end_reason(self) -> str:
        if self._client.hb_channel.is_beating():
            return ""
        return f"The kernel of {self._file} no longer answers."

    def interrupt(self) -> None:
        self.send("control", self.session.msg("interrupt_request", content={}))
