"""The host, as the tools call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    CallHost = Callable[[str, dict[str, Any]], Any]


def _no_host(name: str, args: dict[str, Any]) -> Any:
    raise RuntimeError("There is no host to call")


class Host:
    """Whom the tools of this process call; set by `toolbox.install`."""

    call: CallHost = staticmethod(_no_host)
