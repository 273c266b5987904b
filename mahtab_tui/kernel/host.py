"""What a kernel reports to, and what its cells may call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from mahtab_tui.kernel.cancellation import Cancellation
from mahtab_tui.kernel.values import KernelInfo

OWN_CALLS = frozenset(
    "ask cell_output display input private quit rlm rlm_text rlm_tool rlm_tools rlm_tools_end"
    " rlm_stop terminal usage mcp_call mcp_cancel mcp_search mcp_tools".split()
)
"""The names of the program's own calls. The `called` of a tool's `HostFunction` is another name."""


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


class HostCall(NamedTuple):
    """A call by code in the kernel, which waits for the result."""

    name: str
    """What is called: one of `OWN_CALLS`, or the `called` of a `HostFunction`."""
    args: Mapping[str, Any]
    """The arguments, as JSON values. They come from the kernel, so nothing in them is trusted."""
    cancellation: Cancellation
    """Belongs to this call alone, and is cancelled when the kernel no longer waits for the result. This
    may happen before the call begins."""
    from_cell: bool = True
    """Whether the running cell waits for the result, and not another thread."""


class KernelHost(Protocol):
    """The interface that a kernel calls, on its own threads."""

    def kernel_state(self, info: KernelInfo, text: str) -> None:
        """Report a new state.

        Args:
            text: A sentence for the user, or empty.
        """
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

    def call(self, call: HostCall) -> Any:
        """Serve a call by code in the kernel.

        Runs on a separate thread, so it may block, and may call `Kernel.execute` with
        ``nested=True``.

        Returns:
            The result, as a JSON value.

        Raises:
            Exception: The kernel raises its message as a `RuntimeError`.
        """
        raise RuntimeError("The kernel was not started.")


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
