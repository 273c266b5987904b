"""What a kernel reports to, and what its cells may call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from mahtab_tui.kernel.values import KernelInfo


class HostFunction(NamedTuple):
    """A function in every namespace that calls `KernelHost.call`."""

    name: str
    called: str
    """The name that `KernelHost.call` gets."""
    parameters: Sequence[tuple[str, str, str | None]]
    """Name, annotation and default of each, as source text. The default is None if there is none."""
    doc: str
    """The docstring."""


class HostServer(NamedTuple):
    """An MCP server: an object in every namespace whose tools `KernelHost.call` serves."""

    name: str
    about: str
    """One line for its `repr`."""


class KernelHost(Protocol):
    """The interface that a kernel calls, on its own threads."""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        """Report a new state. text: a sentence for the user, or empty."""
        return

    def background_output(self, text: str) -> None:
        """Report what was printed while no cell ran."""
        return

    def functions(self) -> Sequence[HostFunction]:
        """Return the functions of the host in every namespace."""
        return ()

    def servers(self) -> Sequence[HostServer]:
        """Return the MCP servers in every namespace."""
        return ()

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Serve a call by code in the kernel, which waits for the result.

        Runs on a separate thread, so it may block, and may call `Kernel.execute` with
        ``nested=True``.

        Args:
            name: What is called.
            args: The arguments, as JSON values.

        Returns:
            The result, as a JSON value.

        Raises:
            Exception: The kernel raises its message as a `RuntimeError`.
        """
        raise RuntimeError("The kernel was not started.")

    def call_cancelled(self, name: str, args: Mapping[str, Any]) -> None:
        """Cancel a call, because the kernel no longer waits for its result; name, args: as it was
        called. The call may only begin after this."""
        return


class NullHost(KernelHost):
    """A `KernelHost` for a kernel that has not been started."""


class HostDefinitions(NamedTuple):
    """What a host adds to every namespace, as JSON values."""

    functions: list[dict[str, Any]]
    """The fields of each `HostFunction`."""
    servers: list[dict[str, Any]]
    """The fields of each `HostServer`."""


def host_definitions(host: KernelHost) -> HostDefinitions:
    """Return the host's functions and servers. Raises what the host raises."""
    functions = [function._asdict() for function in host.functions()]
    servers = [server._asdict() for server in host.servers()]
    return HostDefinitions(functions, servers)
