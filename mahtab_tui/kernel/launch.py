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

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.values import SaveTarget
from mahtab_tui.system import find_program
from mahtab_tui.worker.link.frames import CONNECTION_LOST, TOKEN_BYTES
from mahtab_tui.worker.link.spool import PIECE_BYTES, pending_bytes

if TYPE_CHECKING:
    from mahtab_tui.kernel.requests import KernelReady
    from mahtab_tui.worker.link.holder_protocol import HolderSettings

EnvironmentKind = Literal["virtual environment", "conda environment"]

VENV_NAMES = (".venv", "venv")
MIN_VERSION = (3, 9)
"""The oldest Python in which a kernel runs."""
TOO_OLD_CODE = 86
"""The exit code of the bootstrap in an older Python."""
RELEASE_SIZE = 2**20
"""Bytes of stored output from which on their file is shortened."""
MAX_SPECS = 100
"""Kernels of Jupyter that are listed from a folder."""
MAX_CONDA_ENVIRONMENTS = 100
MAX_CONDA_LIST_BYTES = 65_536
MAX_LAST_LINE_CHARS = 200

_SPEC_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_INTERPRETER_NAME = re.compile(r"(python|pypy)[\d.]*[a-z]?")
_PYTHON_HINT = "give a Python interpreter's file, or a virtual environment's folder"
_WORKER_FOLDER = Path(__file__).resolve().parents[1] / "worker"

_SIGNAL_SENTENCES = {
    signal.SIGKILL: "it was killed from outside, or by the system for lack of memory (SIGKILL)",
    signal.SIGTERM: "it was terminated from outside (SIGTERM)",
}

# The version check runs in any Python, even 2.7. While the worker is imported, `sys.path` contains
# neither the working directory, which is also an empty entry of PYTHONPATH, nor the others of
# PYTHONPATH, so that we do not import the user's `queue.py`. The
# package is created by hand, because importlib.util would cost 5 ms. Garbage collection would only
# cost time during imports; `main` enables it.
BOOTSTRAP = f"""\
import sys
if sys.version_info < {MIN_VERSION!r}:
    sys.stdout.write("%d.%d.%d" % sys.version_info[:3]); sys.exit({TOO_OLD_CODE})
import gc, os
gc.disable()
fd, folder, holder = int(sys.argv[1]), sys.argv[2], "".join(sys.argv[3:4])
own = [""]
users = os.environ.get("PYTHONPATH")
for p in users.split(os.pathsep) if users else []:
    try: own.append(os.path.abspath(p))
    except OSError: pass
path = sys.path[:]
sys.path[:] = [p for p in path if p not in own]
package = type(sys)("mahtab_worker"); package.__path__ = [folder]; sys.modules["mahtab_worker"] = package
from mahtab_worker.__main__ import main
sys.path[:] = path if path[:1] == [""] or getattr(sys.flags, "safe_path", False) else [""] + path
main(fd, holder, bool(sys.argv[4:]))
"""


# Finding environments


class PythonEnvironment(NamedTuple):
    """An environment that the user can switch to."""

    path: str
    """As the user would type it."""
    prefix: Path


def environment_kind(folder: Path) -> EnvironmentKind | None:
    """Return of which kind an environment's folder is; None if it is not an environment."""
    if not (folder / "bin" / "python").exists():
        return None
    if (folder / "pyvenv.cfg").is_file():
        return "virtual environment"
    if (folder / "conda-meta").is_dir():
        return "conda environment"
    return None


def environment_prefix(python: str) -> Path | None:
    """Return the folder of an interpreter's environment, if it belongs to one."""
    folder = Path(python).parent.parent
    if environment_kind(folder) is None:
        return None
    return folder


def find_environments(folder: Path, python: str) -> list[PythonEnvironment]:
    """Find environments in a folder and those that are active or that conda lists.

    Args:
        folder: The working directory.
        python: The kernel's interpreter, whose environment is left out.
    """
    current_prefix = environment_prefix(python)
    environments: dict[str, PythonEnvironment] = {}
    for path, prefix in _environment_candidates(folder):
        with suppress(OSError):
            if not path.isprintable():
                continue
            if current_prefix is not None and prefix.samefile(current_prefix):
                continue
            if environment_kind(prefix) is not None:
                real_prefix = os.path.realpath(prefix)
                environments.setdefault(real_prefix, PythonEnvironment(path, prefix))
    return list(environments.values())


def find_kernelspecs() -> list[str]:
    """Return the names of Jupyter's kernels on this machine, without importing its libraries."""
    user_folder = os.environ.get("JUPYTER_DATA_DIR") or os.path.expanduser("~/.local/share/jupyter")
    prefixes = (sys.prefix, "/usr/local", "/usr")
    names: dict[str, None] = {}
    for folder in (user_folder, *(f"{prefix}/share/jupyter" for prefix in prefixes)):
        with suppress(OSError):
            spec_files = sorted(Path(folder, "kernels").glob("*/kernel.json"))
            for file in spec_files[:MAX_SPECS]:
                names[file.parent.name] = None
    return [name for name in names if _SPEC_NAME.fullmatch(name)]


def has_package(prefix: Path, name: str) -> bool:
    """Return whether an environment has a package or a module with this name."""
    try:
        return any(
            path.exists()
            for site_packages in prefix.glob("lib/python3.*/site-packages")
            for path in (site_packages / name, site_packages / f"{name}.py")
        )
    except OSError:
        return False


def _environment_candidates(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield folders that may be environments, each as the user would type it and as a path."""
    for name in VENV_NAMES:
        yield name, folder / name
    for variable in ("UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV", "CONDA_PREFIX"):
        if configured := os.environ.get(variable):
            yield configured, folder / configured
    # `Path.home` raises a RuntimeError if there is no home folder.
    with suppress(OSError, RuntimeError):
        with (Path.home() / ".conda" / "environments.txt").open("rb") as file:
            conda_list = os.fsdecode(file.read(MAX_CONDA_LIST_BYTES))
        for line in conda_list.splitlines()[:MAX_CONDA_ENVIRONMENTS]:
            if os.path.isabs(line):
                yield line, Path(line)


# A kernel's process


class Output(Protocol):
    """What a kernel prints. `read` is called when its pipe is readable."""

    def read(self) -> bytes | None:
        """Return the next bytes; empty at the end, None if there are none now."""

    def available(self) -> Iterator[bytes]:
        """Return what is available at the time of this call, because a thread may print
        endlessly."""


class SeekableOutput(Output, Protocol):
    """Output that another host can read again. Offsets count bytes."""

    @property
    def position(self) -> int: ...

    def go_to(self, offset: int) -> None: ...

    def until(self, end: int) -> Iterator[bytes]: ...

    def release(self, offset: int) -> None:
        """Note that output before an offset is stored and no longer needed."""


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


class DetachHandle(Protocol):
    """By which a process can outlive its screen."""

    lifeline: socket.socket
    """Gets a byte if another host attaches to the process."""
    was_reattached: bool
    """Whether the process has outlived an earlier screen."""
    ready: KernelReady | None
    """The kernel's first message, if an earlier host has received it."""

    def leave(self) -> None:
        """Detach the process."""

    def ended(self) -> None:
        """Remove what was needed to find the process, because it has ended."""


class Process(Protocol):
    """A kernel's process, on this machine or another one."""

    channel: socket.socket
    """For frames in both directions."""
    output: int
    """The descriptor of the pipe for its output."""
    reader: Output
    token: bytes
    """Part of each frame that it sends, unknown to user code."""
    shares_clock: bool
    """Whether its monotonic clock is ours."""
    detach_handle: DetachHandle | None
    """None if it cannot outlive its screen."""

    def signal(self, number: int) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class OwnedProcess(Protocol):
    """A part of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


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


class ConnectionState:
    """The connection to a remote kernel, as the user sees it."""

    def __init__(
        self,
        host: str,
        report: Callable[[str], None],
        call: Callable[[str, Mapping[str, Any]], object],
    ) -> None:
        """Create a state.

        Args:
            host: The other machine, for the user.
            report: Reports the state, with a sentence that may be empty.
            call: Calls a function of the `KernelHost`.
        """
        self._host = host
        self._report = report
        self._call = call
        self.next_try = 0.0
        """When the next attempt to connect follows, in seconds since the epoch; 0 if connected."""
        self.given_up = threading.Event()
        """Set once the kernel is not needed any more, so that nothing waits long."""

    def lost(self, next_try: float, reason: str) -> None:
        """Report that the connection is lost; the sentence is only given the first time."""
        text = ""
        if not self.next_try:
            text = (
                f"Lost the connection to {self._host} ({reason})."
                " The kernel keeps running, and its output is kept."
            )
        self.next_try = next_try
        self._report(text)

    def back(self) -> None:
        """Report that the connection is there again."""
        self.next_try = 0.0
        self._report(f"Reconnected to {self._host}.")

    def ask(self, prompt: str, hidden: bool) -> str | None:
        """Ask the user for what the connection needs.

        Args:
            prompt: What the connecting command asks.
            hidden: Whether the answer is a password.

        Returns:
            The answer; None if there is none.
        """
        prompt = prompt.strip()
        # A prompt of several lines does not fit beside the input.
        if "\n" in prompt:
            self._report(prompt)
        try:
            answer = self._call("input", {"prompt": prompt, "password": hidden})
        except RuntimeError:
            return None
        if answer is None:
            return None
        return str(answer)


class Launcher(Protocol):
    """Starts a kernel's processes, on this machine or another one."""

    label: str
    """The other machine, for the user; empty for this one."""
    address: str
    """As for ``--kernel``; empty for this machine."""
    problem: str
    """Why the last process ends with its screen, as a sentence; empty if that is meant so."""
    will_reattach: bool
    """Whether the first `start` attaches to a waiting kernel."""

    def find(self, python: str | None) -> str:
        """Find an interpreter; None for the default one. Raises `KernelError`."""
        ...

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], wire: ConnectionState
    ) -> Process:
        """Start the worker, on a thread that lives as long as it does. Raises `OSError`,
        `ValueError` and `KernelError`."""

    def keep_settings(self, target: SaveTarget) -> dict[str, Any]:
        """Return what the worker needs to save the namespace. Raises `KernelError`."""
        ...


class LocalLauncher:
    """Launches kernels on this machine that end with their screen."""

    label = ""
    address = ""
    problem = ""
    will_reattach = False
    watches_files = False
    """Whether kernels start with a witness of their files."""

    def find(self, python: str | None) -> str:
        return find_interpreter(python)

    def start(
        self, executable: str, cwd: str, size: tuple[int, int], wire: ConnectionState
    ) -> Process:
        return spawn(executable, cwd, environment(*size), witness=self.watches_files)

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
    if os.sep not in python and (_INTERPRETER_NAME.fullmatch(python) or not path.is_dir()):
        program = find_program(python)
        if program is None:
            raise KernelError(f"There is no {python} on the PATH: {_PYTHON_HINT}.")
        path = Path(program)
    elif path.is_dir():
        path = path / "bin" / "python"
    if not os.access(path, os.X_OK):
        raise KernelError(f"There is no program {path}: {_PYTHON_HINT}.")
    # Links are not resolved, because the python of a virtual environment is a link that only works
    # under its own name.
    return os.path.abspath(path)


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
        descriptors += [holder.listener, holder.pipe, holder.spool, holder.lifeline]
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


# How a process has ended


def describe_end(exit_code: int) -> str:
    """Return how a process has ended, as a clause. exit_code: negative for a signal."""
    if exit_code == CONNECTION_LOST:
        return "code in it closed its connection to the session, or read from it"
    if exit_code >= 0:
        return f"it exited with code {exit_code}"
    number = -exit_code
    try:
        name = signal.Signals(number)
    except ValueError:
        return f"signal {number}"
    if name in _SIGNAL_SENTENCES:
        return _SIGNAL_SENTENCES[name]
    description = signal.strsignal(number) or name.name
    return f"{description.lower()} ({name.name})"


def describe_failed_start(executable: str, exit_code: int, output: str) -> str:
    """Return a sentence about an interpreter in which the worker did not start."""
    min_version = ".".join(map(str, MIN_VERSION))
    if exit_code == TOO_OLD_CODE:
        return f"{executable} is Python {output.strip()}; a kernel needs Python {min_version} or later."
    ending = describe_end(exit_code).removeprefix("it ")
    lines = output.strip().splitlines()
    if lines:
        ending += f", saying: {lines[-1][:MAX_LAST_LINE_CHARS]}"
    return (
        f"{executable} does not work as a Python interpreter of {min_version} or later ({ending})."
    )
