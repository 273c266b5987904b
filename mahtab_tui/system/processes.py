"""Processes, programs on the PATH, folders and waiting."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NoReturn, TypeVar

_VARIABLES = (
    "LANGSMITH_TRACING_V2",
    "LANGCHAIN_TRACING_V2",
    "LANGSMITH_TRACING",
    "LANGCHAIN_TRACING",
)
"""In the order in which langsmith looks at them; the first that is not blank counts."""


def langsmith_variable() -> str:
    """Return the variable that has prompts and answers sent to LangSmith; empty if none does."""
    asks = next((name for name in _VARIABLES if os.environ.get(name, "").strip()), "")
    return asks if asks and os.environ[asks] == "true" else ""


def disable_langsmith() -> None:
    """Have nothing sent from this process, and from those that it starts."""
    for name in _VARIABLES:
        if os.environ.get(name):
            os.environ[name] = "false"


def safe_path() -> str:
    """Return the PATH without its empty and relative entries, which mean the working directory."""
    return os.pathsep.join(
        filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    )


def find_program(name: str) -> str | None:
    """Return the file of a program on the PATH, or the file that is named; None if there is
    none."""
    return shutil.which(name, path=safe_path())


ResultT = TypeVar("ResultT")

_AGAIN = 0.5
"""Seconds."""


def wait_for_result(future: Future[ResultT]) -> ResultT:
    """`future.result()`, for the main thread: a signal that comes in the moment before it sleeps
    does not wake it, so it looks up now and then."""
    while True:
        try:
            return future.result(_AGAIN)
        except TimeoutError:
            if future.done():
                return future.result()  # perhaps the error is its own


_DELETED = " (deleted)"
"""Suffix that Linux writes after the path of a folder that is gone."""


def existing_folder(path: str) -> str:
    """The folder itself, or the nearest one above it that exists and can be entered; the home
    folder for a path that is not absolute."""
    if not os.path.isabs(path):
        return str(Path.home())
    return next(
        folder
        for folder in (path, *map(str, Path(path).parents))
        if folder == os.sep or (os.path.isdir(folder) and os.access(folder, os.X_OK))
    )


def moved_message(gone: str, now: str) -> str:
    """The sentence that says where work goes on."""
    return f"The {f'working directory {gone}' if gone else 'old working directory'} can no longer be used; it is now {now}."


def leave_deleted_folder() -> str:
    """If this process's working directory was deleted, change to the nearest folder above it;
    returns a sentence, empty if all is well."""
    try:
        os.getcwd()
    except FileNotFoundError:
        gone = _deleted_folder()
    else:
        return ""
    now = existing_folder(gone)
    os.chdir(now)
    return moved_message(gone, now)


def _deleted_folder() -> str:
    """The path that the working directory had, as the system or the shell knows it."""
    try:
        return os.readlink("/proc/self/cwd").removesuffix(_DELETED)
    except OSError:  # not on Linux
        return os.environ.get("PWD", "")


SHELL_CODE = 128
"""A shell adds it to the number of the signal that ended a program."""


def signal_group(leader: int, number: int) -> None:
    """Send a signal to a process and its children, if they still run. leader: its process id."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def exit_by_signal(number: int) -> NoReturn:
    """End the process by a signal, so that whoever waits for it sees that. Any thread may call
    it."""
    try:
        import ctypes

        ctypes.CDLL(None).signal(
            number, ctypes.c_void_p(None)
        )  # the default; `signal.signal` works in the main thread only, which may hang
        os.kill(os.getpid(), number)
        time.sleep(1)
    finally:
        os._exit(SHELL_CODE + number)


_TIED = """\
import ctypes, os, sys
parent, number, program = sys.argv[1:4]
ctypes.CDLL(None).prctl(1, int(number), 0, 0, 0)  # PR_SET_PDEATHSIG, which the program keeps
if os.getppid() == int(parent):
    try:
        os.execvp(program, sys.argv[3:])
    except OSError as error:
        os.write(2, f"{program}: {error.strerror}\\n".encode(errors="replace"))
        os._exit(127)
"""


def tie_to_parent(command: Sequence[str], number: signal.Signals = signal.SIGKILL) -> list[str]:
    """A command whose process Linux sends a signal when the *thread* that starts it ends: so also
    when this program is killed.

    A thread that starts such a process has to live as long as that. The exit code is 127 where the
    program cannot be run. Other systems cannot do this: there it is the command itself.
    (`preexec_fn` could do it, too, but forks: that copies this program's memory tables, 11 ms in
    which no other thread goes on.)
    """
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), str(int(number)), *command]
