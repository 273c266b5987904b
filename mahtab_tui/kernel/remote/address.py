"""Addresses of kernels on other machines, and the commands that lead there."""

from __future__ import annotations

import base64
import re
import shlex
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import mahtab_tui.worker as worker
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.local_process import CLEAN_PATH

ADDRESS_HINT = "give ssh://HOST, ssh://USER@HOST:PORT/PATH/TO/PYTHON, or command: and a program with its arguments that runs Python"
"""The end of a message about an address that cannot be read."""
_COMMAND_PREFIX = "command:"
_MAX_LABEL_CHARS = 30
"""Characters of a command that the user sees."""
_SSH_ADDRESS = re.compile(
    r"ssh://(?P<host>(?:[^@/\s]+@)?(?:\[[0-9A-Fa-f:.%]+\]|[^@/:\s\[\]]+))(?::(?P<port>[0-9]{1,5}))?(?P<python>/\S.*)?"
)
_SSH_ALIVE_OPTIONS = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3")
"""Lets ssh itself notice a dead connection."""
_MAX_PORT = 65_535


class Address(NamedTuple):
    """Where a kernel runs."""

    text: str
    """The address as ``--kernel`` takes it."""
    label: str
    """The machine or the command, for the user."""
    argv: tuple[str, ...]
    """The command whose stdin and stdout lead there."""


def parse_address(text: str) -> Address:
    """Parse an address. Raises `KernelError`."""
    if text.startswith(_COMMAND_PREFIX):
        return _parse_command(text)

    # A host that begins with a dash would be an option of ssh.
    match = _SSH_ADDRESS.fullmatch(text)
    if match is None or match["host"].startswith("-") or not _is_port(match["port"]):
        raise KernelError(f"{text} is not a kernel address: {ADDRESS_HINT}.")
    python = unquote(match["python"] or "python3")
    host = match["host"].replace("[", "").replace("]", "")
    port_options = ("-p", match["port"]) if match["port"] else ()
    # ssh joins the words, and the shell there splits them again.
    remote_command = shlex.join(["exec", python, "-c", _loader()])
    argv = ("ssh", "-T", *_SSH_ALIVE_OPTIONS, *port_options, "--", host, remote_command)
    return Address(text, host, argv)


def _is_port(port: str | None) -> bool:
    """Return whether these digits are the number of a port; true if none is named."""
    return port is None or 0 < int(port) <= _MAX_PORT


def _parse_command(text: str) -> Address:
    """Parse the address of a program that runs Python somewhere. Raises `KernelError`."""
    try:
        words = shlex.split(text.removeprefix(_COMMAND_PREFIX))
    except ValueError as error:
        raise KernelError(f"{text} cannot be read ({error}): {ADDRESS_HINT}.") from None
    if not words:
        raise KernelError(f"{text} names no program: {ADDRESS_HINT}.")
    program, *arguments = words
    label = " ".join([Path(program).name, *arguments])
    return Address(text, label[:_MAX_LABEL_CHARS], (*words, "-c", _loader()))


def _loader() -> str:
    """Return the loader as an argument that no shell changes.

    Files next to the user's data do not become its modules.
    """
    source = (Path(worker.__file__).parent / "link" / "station_loader.py").read_bytes()
    encoded_source = base64.b64encode(source).decode()
    clean_path = ",".join(map(repr, CLEAN_PATH.splitlines()))
    return f"exec(chr(10).join([{clean_path}]));import base64;exec(base64.b64decode('{encoded_source}'))"
