"""Finds an interpreter and starts the kernel's worker in it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from mahtab_tui.kernel.base import KernelError, SaveTarget
from mahtab_tui.system import find_program
from mahtab_tui.worker.frames import CONNECTION_LOST, TOKEN_SIZE
from mahtab_tui.worker.spool import PIECE, pending_bytes

if TYPE_CHECKING:
    from mahtab_tui.kernel.requests import KernelReady
    from mahtab_tui.worker.holder import HolderSettings

EnvironmentKind = Literal["virtual environment", "conda environment"]

VENV_NAMES = (".venv", "venv")

_SPEC = re.compile(r"[A-Za-z0-9._-]{1,100}")
_MOST = 100
_LIST_BYTES = 65_536


class PythonEnvironment(NamedTuple):
    path: str
    prefix: Path


def environment_kind(folder: Path) -> EnvironmentKind | None:
    if not (folder / "bin" / "python").exists():
        return None
    if (folder / "pyvenv.cfg").is_file():
        return "virtual environment"
    return "conda environment" if (folder / "conda-meta").is_dir() else None


def environment_prefix(python: str) -> Path | None:
    folder = Path(python).parent.parent
    return folder if environment_kind(folder) else None


def find_environments(folder: Path, python: str) -> list[PythonEnvironment]:
    used = environment_prefix(python)
    found: dict[str, PythonEnvironment] = {}
    for path, prefix in _folders(folder):
        with suppress(OSError):
            if not path.isprintable() or (used and prefix.samefile(used)):
                continue
            if environment_kind(prefix):
                found.setdefault(os.path.realpath(prefix), PythonEnvironment(path, prefix))
    return list(found.values())


def find_kernelspecs() -> list[str]:
    data = os.environ.get("JUPYTER_DATA_DIR") or os.path.expanduser("~/.local/share/jupyter")
    names: dict[str, None] = {}
    for folder in (data, *(f"{each}/share/jupyter" for each in (sys.prefix, "/usr/local", "/usr"))):
        with suppress(OSError):
            found = sorted(Path(folder, "kernels").glob("*/kernel.json"))[:_MOST]
            names.update(dict.fromkeys(file.parent.name for file in found))
    return list(filter(_SPEC.fullmatch, names))


def has_package(prefix: Path, name: str) -> bool:
    try:
        return any(
            path.exists()
            for lib in prefix.glob("lib/python3.*/site-packages")
            for path in (lib / name, lib / f"{name}.py")
        )
    except OSError:
        return False


def _folders(folder: Path) -> Iterator[tuple[str, Path]]:
    for name in VENV_NAMES:
        yield name, folder / name
    for variable in ("UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV", "CONDA_PREFIX"):
        if configured := os.environ.get(variable):
            yield configured, folder / configured
    with suppress(OSError, RuntimeError):  # RuntimeError comes from `home`
        with (Path.home() / ".conda" / "environments.txt").open("rb") as file:
            listed = os.fsdecode(file.read(_LIST_BYTES))
        for line in listed.splitlines()[:_MOST]:
            if os.path.isabs(line):
                yield line, Path(line)


OLDEST = (3, 9)

TOO_OLD = 86

_INTERPRETER = re.compile(r"(python|pypy)[\d.]*[a-z]?")
_WANTED = "give a Python interpreter's file, or a virtual environment's folder"
_WORKER = Path(__file__).resolve().parents[1] / "worker"

# The version check runs in any Python, even 2.7. While the worker is imported, `sys.path` contains
# neither the working directory nor PYTHONPATH, so that we do not import the user's `queue.py`. The
# package is created by hand, because importlib.util would cost 5 ms. Garbage collection would only
# cost time during imports; `main` enables it.
BOOTSTRAP = f"""\
import sys
if sys.version_info < {OLDEST!r}:
    sys.stdout.write("%d.%d.%d" % sys.version_info[:3]); sys.exit({TOO_OLD})
import gc, os
gc.disable()
fd, folder, holder = int(sys.argv[1]), sys.argv[2], "".join(sys.argv[3:])
own = [p and os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep)] + [""]
path = sys.path[:]
sys.path[:] = [p for p in path if p not in own]
package = type(sys)("mahtab_worker"); package.__path__ = [folder]; sys.modules["mahtab_worker"] = package
from mahtab_worker.__main__ import main
sys.path[:] = path if path[:1] == [""] or getattr(sys.flags, "safe_path", False) else [""] + path
main(fd, holder)
"""


RELEASE_SIZE = 2**20


class Output(Protocol):
    """`read` is called when its pipe is readable."""

    def read(self) -> bytes | None:
        """Return the next bytes; empty at the end, None if there are none now."""

    def available(self) -> Iterator[bytes]:
        """Yield what is available now, because a thread may print endlessly."""


class SeekableOutput(Output, Protocol):
    """Output that another host can read again. Offsets count bytes."""

    @property
    def position(self) -> int: ...

    def go_to(self, offset: int) -> None: ...

    def until(self, end: int) -> Iterator[bytes]: ...

    def release(self, offset: int) -> None:
        """Note that output before an offset is stored and no longer needed."""


class PipeOutput:
    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def read(self) -> bytes | None:
        return os.read(self._pipe, PIECE)

    def available(self) -> Iterator[bytes]:
        left = pending_bytes(self._pipe)
        while left > 0 and (data := os.read(self._pipe, min(left, PIECE))):
            yield data
            left -= len(data)


class DetachHandle(Protocol):
    lifeline: socket.socket
    was_reattached: bool
    ready: KernelReady | None

    def leave(self) -> None: ...

    def ended(self) -> None: ...


class Process(Protocol):
    channel: socket.socket
    output: int
    reader: Output
    token: bytes
    """Part of each frame that it sends, unknown to user code."""
    shares_clock: bool
    detach_handle: DetachHandle | None

    def signal(self, number: int) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Child(Protocol):
    """A part of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


@dataclass
class LocalProcess:
    child: Child
    channel: socket.socket
    output: int
    token: bytes
    reader: Output
    detach_handle: DetachHandle | None = None
    cell: int = 0
    """The cell that it ran when this host attached; 0 for none."""
    shares_clock = True

    def signal(self, number: int) -> None:
        # The number of a process that has ended may be reused; its children are killed.
        if number == signal.SIGKILL or self.child.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.child.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        return self.child.wait(timeout)


class ConnectionState:
    """The connection to a remote kernel."""

    def __init__(
        self,
        host: str,
        report: Callable[[str], None],
        call: Callable[[str, Mapping[str, Any]], Any],
    ) -> None:
        self._host = host
        self._report = report
        self._call = call
        self.next_try = 0.0
        self.given_up = threading.Event()
        """Set once the kernel is not needed any more, so that nothing waits long."""

    def lost(self, next_try: float, why: str) -> None:
        before, self.next_try = self.next_try, next_try
        gone = f"Lost the connection to {self._host} ({why}). The kernel keeps running, and its output is kept."
        self._report("" if before else gone)

    def back(self) -> None:
        self.next_try = 0.0
        self._report(f"Reconnected to {self._host}.")

    def ask(self, prompt: str, hidden: bool) -> str | None:
        """Ask the user for what the connection needs. hidden: whether it is a password. Returns
        None if there is no answer."""
        prompt = prompt.strip()
        if "\n" in prompt:
            self._report(prompt)
        try:
            answer = self._call("input", {"prompt": prompt, "password": hidden})
        except RuntimeError:
            return None
        return None if answer is None else str(answer)


class Launcher(Protocol):
    """Starts a kernel's processes, on this machine or another one."""

    label: str
    address: str
    problem: str
    will_reattach: bool
    """Whether the first `start` attaches to a waiting kernel."""

    def find(self, python: str | None) -> str: ...

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], wire: ConnectionState
    ) -> Process:
        """Start the worker, on a thread that lives as long as it does. Raises `OSError`,
        `ValueError` and `KernelError`."""

    def keep_settings(self, target: SaveTarget) -> dict[str, Any]: ...


class LocalLauncher:
    label = address = problem = ""
    will_reattach = False

    def find(self, python: str | None) -> str:
        return find_interpreter(python)

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], wire: ConnectionState
    ) -> Process:
        return spawn(executable, cwd, environment(*size))

    def keep_settings(self, target: SaveTarget) -> dict[str, Any]:
        return {**target._asdict(), "cloudpickle": cloudpickle_folder()}


def cloudpickle_folder() -> str:
    """Return the folder of cloudpickle, which is not imported here. Raises `KernelError`."""
    spec = find_spec("cloudpickle")
    if spec is None or spec.origin is None:
        raise KernelError(
            "Variables are not saved, because the package cloudpickle is missing. Install mahtab-tui again."
        )
    return os.path.dirname(spec.origin)


def find_interpreter(python: str | None) -> str:
    """Find an interpreter's file. python: a path, a name on the PATH, the folder of a virtual
    environment, or None for our own. Names such as ``python3`` are looked up only on the PATH,
    because a folder may contain a file with that name. Raises `KernelError`."""
    if python is None:
        return sys.executable
    path = Path(python).expanduser()
    if os.sep not in python and (_INTERPRETER.fullmatch(python) or not path.is_dir()):
        found = find_program(python)
        if found is None:
            raise KernelError(f"There is no {python} on the PATH: {_WANTED}.")
        path = Path(found)
    elif path.is_dir():
        path = path / "bin" / "python"
    if not os.access(path, os.X_OK):
        raise KernelError(f"There is no program {path}: {_WANTED}.")
    # Links are not resolved, because the python of a virtual environment is a link that only works
    # under its own name.
    return os.path.abspath(path)


def environment(columns: int, lines: int) -> dict[str, str]:
    return {**os.environ, **screen_variables(columns, lines, os.environ)}


def screen_variables(
    columns: int, lines: int, own: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return variables that describe the screen: output goes to a pipe, but colours are shown. own:
    the user's own NO_COLOR or FORCE_COLOR, which takes precedence."""
    env = {"COLUMNS": str(columns), "LINES": str(lines)}
    if "NO_COLOR" in own:
        return env
    for name, value in {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TTY_INTERACTIVE": "0"}.items():
        env[name] = own.get(name, value)
    if own.get("TERM", "dumb") == "dumb":
        env["TERM"] = "xterm-256color"
    return env


def spawn(
    executable: str,
    cwd: str,
    env: Mapping[str, str],
    *,
    pipe: tuple[int, int] | None = None,
    holder: HolderSettings | None = None,
) -> LocalProcess:
    """Start the worker. Raises `OSError`. On Linux the process ends with the *thread* that called
    this."""
    ours, theirs = socket.socketpair()
    token = os.urandom(TOKEN_SIZE)
    ours.sendall(token)
    output, write_end = pipe or os.pipe()
    descriptors, settings = [theirs.fileno()], ""
    if holder is not None:
        descriptors += [holder.listener, holder.pipe, holder.spool, holder.lifeline]
        settings = json.dumps(holder._asdict())
    try:
        child = subprocess.Popen(
            [executable, "-c", BOOTSTRAP, str(theirs.fileno()), str(_WORKER), settings],
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            pass_fds=descriptors,
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
    return LocalProcess(child, ours, output, token, PipeOutput(output))


_WORDS = {
    signal.SIGKILL: "it was killed from outside, or by the system for lack of memory (SIGKILL)",
    signal.SIGTERM: "it was terminated from outside (SIGTERM)",
}


def describe_end(code: int) -> str:
    if code == CONNECTION_LOST:
        return "code in it closed its connection to the session, or read from it"
    if code >= 0:
        return f"it exited with code {code}"
    number = -code
    try:
        name = signal.Signals(number)
    except ValueError:
        return f"signal {number}"
    return _WORDS.get(name) or f"{(signal.strsignal(number) or name.name).lower()} ({name.name})"


def describe_failed_start(executable: str, code: int, output: str) -> str:
    oldest = ".".join(map(str, OLDEST))
    if code == TOO_OLD:
        return f"{executable} is Python {output.strip()}; a kernel needs Python {oldest} or later."
    lines = output.strip().splitlines()
    last_line = f", saying: {lines[-1][:200]}" if lines else ""
    ending = describe_end(code).removeprefix("it ")
    return f"{executable} does not work as a Python interpreter of {oldest} or later ({ending}{last_line})."
