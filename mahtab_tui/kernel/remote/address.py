"""Address of a kernel, as ``--kernel`` gives it, and the command that leads there."""

from __future__ import annotations

import base64
import re
import shlex
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import mahtab_tui.kernel.worker as worker
from mahtab_tui.kernel.base import KernelError

WANTED = "give ssh://HOST, ssh://USER@HOST:PORT/PATH/TO/PYTHON, or command: and a program with its arguments that runs Python"

_SSH = re.compile(
    r"ssh://(?P<host>(?:[^@/\s]+@)?(?:\[[0-9A-Fa-f:.%]+\]|[^@/:\s\[\]]+))(?::(?P<port>\d{1,5}))?(?P<python>/\S.*)?"
)
_LABEL = 30
"""Characters of a command that the header shows."""
_ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3")
"""ssh itself notices a dead connection, unless the user has set it."""


class Address(NamedTuple):
    """The way to a kernel elsewhere."""

    text: str
    """As the user wrote it."""
    label: str
    """For the header: the host, or the command's first words."""
    argv: tuple[str, ...]
    """The command whose stdin and stdout are the wire."""


def parse(text: str) -> Address:
    """Read an address. Raises `KernelError`."""
    if text.startswith("command:"):
        try:
            words = shlex.split(text.removeprefix("command:"))
        except ValueError as error:
            raise KernelError(f"{text} cannot be read ({error}): {WANTED}.") from None
        if not words:
            raise KernelError(f"{text} names no program: {WANTED}.")
        return Address(
            text, " ".join([Path(words[0]).name, *words[1:]])[:_LABEL], (*words, "-c", _loader())
        )
    found = _SSH.fullmatch(text)
    if found is None or found["host"].startswith("-"):
        raise KernelError(f"{text} is not a kernel address: {WANTED}.")
    python = unquote(found["python"] or "python3")
    host = found["host"].replace("[", "").replace("]", "")
    port = ("-p", found["port"]) if found["port"] else ()
    # ssh joins the words and the shell there takes them apart again.
    there = shlex.join(["exec", python, "-c", _loader()])
    return Address(text, host, ("ssh", "-T", *_ALIVE, *port, "--", host, there))


def _loader() -> str:
    """The loader as an argument that no shell changes. Files beside the user's data do not become
    its modules."""
    source = Path(worker.__file__).with_name("station").joinpath("loader.py").read_bytes()
    own = (
        "[q and os.path.abspath(q) for q in os.environ.get('PYTHONPATH','').split(os.pathsep)]+['']"
    )
    clean = f"import sys,os;o={own};sys.path[:]=[q for q in sys.path if q not in o]"
    return f"{clean};import base64;exec(base64.b64decode('{base64.b64encode(source).decode()}'))"
