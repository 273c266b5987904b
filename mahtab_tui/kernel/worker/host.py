"""How tools call the host: the function for it, and functions of the namespace that the host answers, made from its descriptions."""

from __future__ import annotations
import __future__

from typing import TYPE_CHECKING, Any, Callable

from .text_forms import mark_as_text
from .tracebacks import HERE

if TYPE_CHECKING:
    CallHost = Callable[[str, dict[str, Any]], Any]

_JSON = (str, int, float, bool, list, tuple, dict, type(None))


def _no_host(name: str, args: dict[str, Any]) -> Any:
    raise RuntimeError("There is no host to call")


class Host:
    """Holds the function that the tools of this process call; `toolbox.install` sets it."""

    call: CallHost = staticmethod(_no_host)

    is_elsewhere = False
    """Whether the host is another machine, which cannot read files of this one."""


def make(described: dict[str, Any]) -> Callable[..., str]:
    """Make the function of a `kernel.base.HostFunction`. When called, it may raise RuntimeError with the host's message."""
    name, called = described["name"], described["called"]
    parameters = [
        f"{each}: {annotation}" + (f" = {default}" if default else "")
        for each, annotation, default in described["parameters"]
    ]
    given = ", ".join(f"{each!r}: {each}" for each, _, _ in described["parameters"])

    def call(arguments: dict[str, Any]) -> str:
        return mark_as_text(
            str(Host.call(called, {key: _plain(value) for key, value in arguments.items()}))
        )

    source = f"def {name}({', '.join(parameters)}) -> str:\n    return __call__({{{given}}})"
    # A file name in our folder, so that tracebacks hide it.
    code = compile(
        source,
        f"{HERE}/host_functions/{name}",
        "exec",
        __future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    made: dict[str, Any] = {"__call__": call, "__name__": __name__}
    exec(code, made)
    made[name].__doc__ = described["doc"]
    function: Callable[..., str] = made[name]
    return function


def _plain(value: Any) -> Any:
    """Convert a value for JSON: numbers of other libraries to numbers, others, such as paths, to text."""
    if type(value) in _JSON:
        return value
    try:
        return value.__index__()
    except Exception:  # raised by the object's code
        return str(value)
