"""How our helper gets into a Jupyter kernel for Python. See `kernel/worker/ipython`."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mahtab_tui.kernel.worker as worker
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.remote.bundle import bundle

NAME = "_mahtab_tui"
"""Our package there."""
TARGET = "mahtab-tui"
"""The comm over which the helper is asked."""
_HELPER = f"__import__('sys').modules['{NAME}.ipython.helper']"
ENDED_CODE = {"mahtab": f"{_HELPER}.ended()"}
"""The expression that tells what the cell before it has changed."""


def loading(token: str, session: str) -> dict[str, str]:
    """Return expressions that load the helper, and that name nothing in the namespace."""
    return {"load": _loader(), "hello": f"{_HELPER}.begin({token!r}, {session!r})"}


@functools.cache
def _loader() -> str:
    source = Path(worker.__file__).with_name("ipython").joinpath("loader.py").read_bytes()
    call = f"\n\nload({NAME!r}, {base64.b64encode(bundle().data).decode()!r})\n"
    code = base64.b64encode(source + call.encode()).decode()
    return f"__import__('builtins').exec(__import__('base64').b64decode('{code}'), {{'__name__': {NAME + '_loader'!r}}})"


def value_of(reply: Mapping[str, Any], name: str) -> Any:
    """Return the JSON that an expression has told. Raises `KernelError`."""
    told = reply.get("user_expressions")
    each = told.get(name) if isinstance(told, Mapping) else None
    if (
        isinstance(each, Mapping)
        and each.get("status") == "ok"
        and isinstance(each.get("data"), Mapping)
    ):
        try:
            return json.loads(str(each["data"].get("text/plain")))
        except (ValueError, RecursionError):
            pass
    why = (
        f"{each.get('ename')}: {each.get('evalue')}"
        if isinstance(each, Mapping) and each.get("status") == "error"
        else "it does not answer"
    )
    raise KernelError(f"The kernel's helper does not work ({why}).")
