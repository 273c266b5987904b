"""The function through which tools call the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    CallHost = Callable[[str, dict[str, Any]], Any]


def _no_host(name: str, args: dict[str, Any]) -> Any:
    raise RuntimeError("There is no host to call")


class Host:
    """Holds the function that the tools of this process call; `toolbox.install` sets it."""

    call: CallHost = staticmethod(_no_host)

    is_elsewhere = False
    """Whether the host is another machine, which cannot read files of this one."""
