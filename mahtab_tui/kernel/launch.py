"""Finding an interpreter and starting the kernel side in it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.worker.frames import TOKEN_SIZE

OLDEST = (3, 9)
"""The oldest Python that the kernel side runs in."""

TOO_OLD = 86
"""Exit code of an interpreter that is older."""

_INTERPRETER = re.compile(r"(python|pypy)[\d.]*[a-z]?")
_WANTED = "give a Python interpreter's file, or a virtual environment's folder"
_WORKER = Path(__file__).resolve().parent / "worker"

# Runs (as far as needed) in any Python, 2.7 too. While the worker is imported, `sys.path` has neither the working
# directory nor PYTHONPATH: a `queue.py` of the person's must not become ours. The package is made by hand, because
# importlib.util would cost 5 ms; the collector finds nothing in imports but costs time (`main` switches it on).
BOOTSTRAP = f"""\
import sys
if sys.version_info < {OLDEST!r}:
    sys.stdout.write("%d.%d.%d" % sys.version_info[:3]); sys.exit({TOO_OLD})
import gc, os
gc.disable()
fd, folder = int(sys.argv[1]), sys.argv[2]
own = [p and os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep)] + [""]
path = sys.path[:]
sys.path[:] = [p for p in path if p not in own]
package = type(sys)("mahtab_worker"); package.__path__ = [folder]; sys.modules["mahtab_worker"] = package
from mahtab_worker.__main__ import main
sys.path[:] = path if path[:1] == [""] or getattr(sys.flags, "safe_path", False) else [""] + path
main(fd)
"""


class Process(NamedTuple):
    """A kernel process and the host's ends of what connects it."""

    child: subprocess.Popen[bytes]
    channel: socket.socket
    output: int
    """The read end of the pipe that is its fd 1 and 2."""
    token: bytes
    """Stands in each frame that it sends. Only the kernel knows it, by the first bytes that it reads."""


def find_interpreter(python: str | None) -> str:
    """The file of an interpreter: a path, a name on the PATH, a virtual environment's folder, or None for our own.

    ``python3`` and the like are looked up on the PATH only: a folder may have a file of that name. Raises `KernelError`.
    """
    if python is None:
        return sys.executable
    path = Path(python).expanduser()
    if os.sep not in python and (_INTERPRETER.fullmatch(python) or not path.is_dir()):
        folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
        found = shutil.which(python, path=os.pathsep.join(filter(os.path.isabs, folders)))
        if found is None:
            raise KernelError(f"There is no {python} on the PATH: {_WANTED}, as in ./{python} for one that is here.")
        path = Path(found)
    elif path.is_dir():
        inside = path / "bin" / "python"
        if not inside.exists():
            raise KernelError(f"{path} is a folder without bin/python: {_WANTED}.")
        path = inside
    if not path.exists():
        raise KernelError(f"There is no file {path}: {_WANTED}.")
    if not os.access(path, os.X_OK):
        raise KernelError(f"{path} is not a program: {_WANTED}.")
    # Not resolved: a virtual environment's python is a link, and is what it is by its own name.
    return os.path.abspath(path)


def environment(color: bool, columns: int, lines: int) -> dict[str, str]:
    """The person's own environment, with what tells programs about the screen.

    Output goes to a pipe, so programs must be told that colour (SGR) is shown, and that nothing else of a terminal is
    there: no cursor movement (`TTY_INTERACTIVE` is rich's word for it). A choice that the person made by NO_COLOR or
    FORCE_COLOR stands.
    """
    env = dict(os.environ)
    env["COLUMNS"], env["LINES"] = str(columns), str(lines)
    if not color:
        env["NO_COLOR"] = "1"
        env["TERM"] = "dumb"
    elif "NO_COLOR" not in env:
        env.setdefault("FORCE_COLOR", "1")
        env.setdefault("CLICOLOR_FORCE", "1")
        env.setdefault("TTY_INTERACTIVE", "0")
        if env.get("TERM", "dumb") == "dumb":
            env["TERM"] = "xterm-256color"
    return env


def spawn(executable: str, cwd: str, env: Mapping[str, str]) -> Process:
    """Start the kernel side. Raises `OSError`.

    Linux ends the process together with the *thread* that called this: call it from one that lives as long as the
    kernel.
    """
    ours, theirs = socket.socketpair()
    token = os.urandom(TOKEN_SIZE)
    ours.sendall(token)
    output, write_end = os.pipe()
    try:
        child = subprocess.Popen(
            [executable, "-c", BOOTSTRAP, str(theirs.fileno()), str(_WORKER)],
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            pass_fds=[theirs.fileno()],
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        os.close(output)
        raise
    finally:
        theirs.close()
        os.close(write_end)
    return Process(child, ours, output, token)
