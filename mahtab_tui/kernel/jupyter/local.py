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
from mahtab_tui.kernel.jupyter.cell import Channel, OnMessage
from mahtab_tui.kernel.launch import describe_end, environment
from mahtab_tui.system import start_thread

ERROR_CHARS = 1_000
SHUTDOWN = 1.5


class ZmqConnection:
    label: str
    address: str
    ours: bool
    """Whether we started the kernel, and therefore end it."""

    def __init__(self) -> None:
        self._client: BlockingKernelClient
        self._on_message: OnMessage
        self._outgoing: queue.SimpleQueue[tuple[Channel, Mapping[str, Any]] | None] = (
            queue.SimpleQueue()
        )
        self._lock = threading.Lock()
        self._wake_read = self._wake_write = -1
        self._thread: threading.Thread | None = None

    def open(self, on_message: OnMessage) -> None:
        """Start or join the kernel, and pass on its messages. Raises `KernelError`."""
        raise NotImplementedError

    def ended(self) -> str:
        """Return why the kernel cannot be reached any more, as a sentence; empty while it may."""
        raise NotImplementedError

    def interrupt(self) -> None:
        raise NotImplementedError

    def restart(self) -> None:
        raise NotImplementedError

    @property
    def session(self) -> Any:
        return self._client.session

    def send(self, channel: Channel, message: Mapping[str, Any]) -> None:
        if self._thread is None:
            raise KernelError("The kernel was not started.")
        self._outgoing.put((channel, message))
        self._wake()

    def close(self) -> None:
        self._outgoing.put(None)
        self._wake()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join()

    def _connect(self, client: BlockingKernelClient, on_message: OnMessage) -> None:
        self._client, self._on_message = client, on_message
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
                    os.read(self._wake_read, 65536)
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
        while not self._outgoing.empty():
            item = self._outgoing.get()
            if item is None:
                return False
            with suppress(ValueError, TypeError):
                self._client.session.send(channels[item[0]], dict(item[1]))
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
    ours = True

    def __init__(self, name: str, cwd: str) -> None:
        super().__init__()
        self.label = self.address = f"jupyter:{name}"
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
        self._manager = KernelManager(kernel_name=self._name, shutdown_wait_time=SHUTDOWN)
        try:
            self._manager.start_kernel(
                cwd=self._cwd,
                env=environment(80, 24),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
            )
        except (OSError, NoSuchKernel, RuntimeError, ValueError) as error:
            raise KernelError(f"The kernel {self._name} could not be started: {error}.") from None
        self._connect(self._manager.blocking_client(), on_message)

    def ended(self) -> str:
        if self._manager.is_alive():
            return ""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - ERROR_CHARS))
        lines = [
            line
            for line in self._errors.read().decode(errors="replace").splitlines()
            if line.strip() and "WARNING" not in line
        ]
        last_line = f" (it said: {lines[-1][:200].strip()})" if lines else ""
        process = getattr(self._manager.provisioner, "process", None)
        code = getattr(process, "returncode", None)
        ending = describe_end(code) if isinstance(code, int) else "it has ended"
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
        if self._thread is not None:
            with suppress(OSError, RuntimeError):
                self._manager.shutdown_kernel()
        self._errors.close()


class ExistingConnection(ZmqConnection):
    """A kernel started by another program, found by its connection file."""

    ours = False

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

    def ended(self) -> str:
        beats = self._client.hb_channel.is_beating()
        return "" if beats else f"The kernel of {self._file} no longer answers."

    def interrupt(self) -> None:
        self.send("control", self.session.msg("interrupt_request", content={}))

    def restart(self) -> None:
        raise KernelError("Only the program that started this kernel can restart it.")
