"""The messages of Jupyter's protocol. A kernel may be any program, so nothing in them is trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from mahtab_tui.kernel.base import KernelError

Channel = Literal["shell", "iopub", "stdin", "control"]
Message = Mapping[str, Any]
"""A message with ``header``, ``parent_header`` and ``content``."""

OnMessage = Callable[[Channel, Message], None]


def parent_id(message: Message) -> str:
    """Return the id of the message to which a message belongs; empty if there is none."""
    parent = message.get("parent_header")
    if not isinstance(parent, Mapping):
        return ""
    return str(parent.get("msg_id", ""))


def execute_content(code: str, expressions: Mapping[str, str], *, silent: bool) -> dict[str, Any]:
    """Return the content of an ``execute_request``.

    Args:
        code: The code.
        expressions: What the kernel evaluates after it, by names for the reply.
        silent: Whether it is not a cell of the user's.
    """
    return {
        "code": code,
        "silent": silent,
        "store_history": not silent,
        "user_expressions": dict(expressions),
        "allow_stdin": not silent,
        "stop_on_error": False,
    }


def read_expression(reply: Mapping[str, Any], name: str) -> Any:
    """Return the JSON value of an expression of the helper. Raises `KernelError`."""
    expressions = reply.get("user_expressions")
    result = expressions.get(name) if isinstance(expressions, Mapping) else None
    if not isinstance(result, Mapping):
        raise _helper_error("it does not answer")
    if result.get("status") == "error":
        raise _helper_error(f"{result.get('ename')}: {result.get('evalue')}")

    data = result.get("data")
    if result.get("status") == "ok" and isinstance(data, Mapping):
        with suppress(ValueError, RecursionError):
            return json.loads(str(data.get("text/plain")))
    raise _helper_error("it does not answer")


def _helper_error(reason: str) -> KernelError:
    return KernelError(f"The kernel's helper does not work ({reason}).")
