"""Functions of the namespace that the host answers, made from what the host says of them."""

from __future__ import annotations
import __future__

from typing import Any, Callable

from .host import Host
from .readable import readable
from .tracebacks import HERE

_JSON = (str, int, float, bool, list, tuple, dict, type(None))


def make(described: dict[str, Any]) -> Callable[..., str]:
    """A function of a `kernel.base.HostFunction`. Raises RuntimeError, when it is called, with the host's words."""
    name, called = described["name"], described["called"]
    parameters = [f"{each}: {annotation}" + (f" = {default}" if default else "") for each, annotation, default in described["parameters"]]
    given = ", ".join(f"{each!r}: {each}" for each, _, _ in described["parameters"])

    def call(arguments: dict[str, Any]) -> str:
        return readable(str(Host.call(called, {key: _plain(value) for key, value in arguments.items()})))

    source = f"def {name}({', '.join(parameters)}) -> str:\n    return __call__({{{given}}})"
    # Under our own folder, so that no traceback shows it.
    code = compile(source, f"{HERE}/host_functions/{name}", "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    made: dict[str, Any] = {"__call__": call, "__name__": __name__}
    exec(code, made)
    made[name].__doc__ = described["doc"]
    function: Callable[..., str] = made[name]
    return function


def _plain(value: Any) -> Any:
    """What JSON carries: numbers of other libraries as numbers, all else (a path) as its text."""
    if type(value) in _JSON:
        return value
    try:
        return value.__index__()
    except Exception:  # an object of the person's
        return str(value)
