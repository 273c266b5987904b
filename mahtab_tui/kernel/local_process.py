"""Starts the worker in a process on this machine, with a socket for frames and a pipe for
output."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mahtab_tui.kernel.process_parts import DetachHandle, Output, OwnedProcess
from mahtab_tui.worker.link.frames import TOKEN_BYTES
from mahtab_tui.worker.link.spool import PIECE_BYTES, pending_bytes

if TYPE_CHECKING:
    from mahtab_tui.worker.link.holder_protocol import HolderSettings

MIN_VERSION = (3, 9)
"""The oldest Python in which a kernel runs."""
TOO_OLD_CODE = 86
"""The exit code of the bootstrap in an older Python."""
_WORKER_FOLDER = Path(__file__).resolve().parents[1] / "worker"
CLEAN_PATH = """\
import sys, os
user_folders = [""]
python_path = os.environ.get("PYTHONPATH")
for folder in python_path.split(os.pathsep) if python_path else []:
    try: user_folders.append(os.path.abspath(folder))
    except OSError: pass
sys.path[:] = [folder for folder in sys.path if folder not in user_folders]
"""
"""Code that removes the working folder and PYTHONPATH from `sys.path`, also where they are one: an
empty entry of PYTHONPATH is the working folder. So we do not import the user's `queue.py`. It has
neither single quotes nor backslashes, because it goes through shells."""

# The version check runs in any Python, even 2.7. The package is created by hand, because
# importlib.util would cost 5 ms. Garbage collection would only cost time during imports; `main`
# enables it.
BOOTSTRAP = f"""\
import sys
if sys.version_info < {MIN_VERSION!r}:
    sys.stdout.write("%d.%d.%d" % sys.version_info[:3]); sys.exit({TOO_OLD_CODE})
import gc
gc.disable()
path = sys.path[:]
{CLEAN_PATH}
host_fd = int(sys.argv[1])
worker_folder = sys.argv[2]
holder_settings = "".join(sys.argv[3:4])
watches_files = bool(sys.argv[4:])
package = type(sys)("mahtab_worker")
package.__path__ = [worker_folder]
sys.modules["mahtab_worker"] = package
from mahtab_worker.__main__ import main
sys.path[:] = path if path[:1] == [""] or getattr(sys.flags, "safe_path", False) else [""] + path
main(host_fd, holder_settings, watches_files)
"""


class PipeOutput:
    """The output of a kernel that ends with its screen, directly from the pipe."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def read(self) -> bytes | None:
        return os.read(self._pipe, PIECE_BYTES)

    def available(self) -> Iterator[bytes]:
        return self._next(pending_bytes(self._pipe))

    def _next(self, remaining_bytes: int) -> Iterator[bytes]:
        while remaining_bytes > 0:
            data = os.read(self._pipe, min(remaining_bytes, PIECE_BYTES))
            if not data:
                return
            yield data
            remaining_bytes -= len(data)


@dataclass
class LocalProcess:
    """A kernel's process on this machine; implements `Process`."""

    child: OwnedProcess
    channel: socket.socket
    output: int
    token: bytes
    reader: Output
    detach_handle: DetachHandle | None = None
    cell: int = 0
    """The cell that it ran when this host attached; 0 for none."""
    has_witness: bool = False
    """Whether the kernel is a child of `child`, in a process group of its own."""
    kernel_pid: int = 0
    """The kernel, if it has a witness and is ready; else 0."""
    shares_clock = True

    def signal(self, number: int) -> None:
        # The number of a process that has ended may be reused; its children are killed.
        if number == signal.SIGKILL or self.child.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.kernel_pid or self.child.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        return self.child.wait(timeout)


def environment(columns: int, lines: int) -> dict[str, str]:
    """Return the environment variables of a kernel on this machine."""
    return {**os.environ, **screen_variables(columns, lines, os.environ)}


def screen_variables(
    columns: int, lines: int, user_variables: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return variables that describe the screen: output goes to a pipe, but colours are shown.

    Args:
        columns: The width of the screen.
        lines: Its height.
        user_variables: The user's own NO_COLOR or FORCE_COLOR, which takes precedence.
    """
    variables = {"COLUMNS": str(columns), "LINES": str(lines)}
    if "NO_COLOR" in user_variables:
        return variables
    defaults = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TTY_INTERACTIVE": "0"}
    for name, value in defaults.items():
        variables[name] = user_variables.get(name, value)
    if user_variables.get("TERM", "dumb") == "dumb":
        variables["TERM"] = "xterm-256color"
    return variables


def spawn(
    executable: str,
    cwd: str,
    env: Mapping[str, str],
    *,
    pipe: tuple[int, int] | None = None,
    holder: HolderSettings | None = None,
    witness: bool = False,
) -> LocalProcess:
    """Start the worker. On Linux the process ends with the *thread* that called this.

    Args:
        executable: The interpreter.
        cwd: The working directory.
        env: All environment variables.
        pipe: The ends of the pipe for its output, for reading and writing; by default a new one.
        holder: What the kernel's holder needs, if the kernel can outlive its screen.
        witness: Whether a process above the kernel watches its files.

    Raises:
        OSError: The interpreter cannot be started.
    """
    our_socket, worker_socket = socket.socketpair()
    token = os.urandom(TOKEN_BYTES)
    our_socket.sendall(token)
    output, write_end = pipe or os.pipe()
    descriptors = [worker_socket.fileno()]
    holder_settings = ""
    if holder is not None:
        descriptors += [holder.listener, holder.output_pipe, holder.spool, holder.lifeline]
        holder_settings = json.dumps(holder._asdict())
    arguments = [str(worker_socket.fileno()), str(_WORKER_FOLDER), holder_settings]
    if witness:
        arguments.append("witness")
    try:
        child = subprocess.Popen(
            [executable, "-c", BOOTSTRAP, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            pass_fds=descriptors,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except BaseException:
        our_socket.close()
        os.close(output)
        raise
    finally:
        worker_socket.close()
        os.close(write_end)
    reader = PipeOutput(output)
    return LocalProcess(child, our_socket, output, token, reader, has_witness=witness)
