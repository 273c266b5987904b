"""A proxy between a client and a server on loopback, which cuts, freezes and swallows."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class TcpProxy:
    """Passes everything on in both directions."""

    def __init__(self, port: int) -> None:
        self.to = port
        """The server's port, for new connections."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self.accepts = True
        """Whether new connections are passed on; otherwise they are closed."""
        self.passes = threading.Event()
        """While it is not set, nothing moves."""
        self.passes.set()
        self.swallows = False
        """Whether everything from the server is lost."""
        self.has_swallowed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *, accepts: bool = False) -> None:
        """End all connections. accepts: whether new ones are passed on."""
        self.accepts = accepts
        ended, self._open = self._open, []
        for each in ended:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.passes.set()
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if not self.accepts:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self.to))
                self._open += [client, server]
                threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
                threading.Thread(
                    target=self._pump,
                    args=(server, client),
                    kwargs={"from_server": True},
                    daemon=True,
                ).start()

    def _pump(
        self, source: socket.socket, target: socket.socket, *, from_server: bool = False
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(2**16):
                self.passes.wait()
                if from_server and self.swallows:
                    self.has_swallowed.set()
                else:
                    target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxy_to(port: int) -> Iterator[TcpProxy]:
    """A proxy to a port on loopback, for the time of a test."""
    proxy = TcpProxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
