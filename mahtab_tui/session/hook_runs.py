"""Runs one hook: a command in a process of its own, or a Python function on a thread of this process."""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import IO, Any, NamedTuple, cast

from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.settings.model import home_folder
from mahtab_tui.system.imports import IMPORTS
from mahtab_tui.system.processes import tied

LARGEST = 1_000_000
"""Bytes that a command may write as its answer."""
_TAIL = 500
"""Characters of the end of its stderr that a sentence quotes."""
_CHECK = 0.05
"""Seconds between two looks whether the user has stopped it, and whether it has ended."""


class HookFailed(Exception):
    """A hook gave no answer; the message completes "The hook …"."""


class HookStopped(Exception):
    """The user stopped a hook."""


class HookAnswer(NamedTuple):
    """What a hook says. Each is None if it says nothing of that kind."""

    block: str | None = None
    """Why the code must not run, or the question must not be asked."""
    change: str | None = None
    """What runs, or is asked, instead."""
    notify: str | None = None
    """A message for the user."""


def run_hook(hook: str | Sequence[str], given: Mapping[str, Any], folder: Path, seconds: float, stopped: threading.Event) -> HookAnswer:
    """Run a hook and read its answer. folder: where a command runs. seconds: its time limit. Raises `HookFailed` and `HookStopped`."""
    if isinstance(hook, str):
        return _read(_call(hook, given, seconds, stopped))
    written = _Command(hook, json.dumps(given).encode(), folder).answer(seconds, stopped)
    try:
        return _read(json.loads(written) if written.strip() else None)
    except (ValueError, RecursionError):
        raise HookFailed(f"did not answer with JSON: {_quoted(written)}") from None


def _read(value: Any) -> HookAnswer:
    """Check an answer. Raises `HookFailed`."""
    if value is None:
        return HookAnswer()
    if not isinstance(value, dict) or not value.keys() <= set(HookAnswer._fields):
        raise HookFailed(f"gave an answer that is not an object with {', '.join(HookAnswer._fields)}: {one_line(repr(value))[:_TAIL]}")
    for name, text in value.items():
        if text is not None and not _is_text(text):
            raise HookFailed(f"gave a value of {name} that is not a text.")
    return HookAnswer(**value)


def _is_text(value: Any) -> bool:
    """Tell whether it is a string without halves of surrogate pairs, which nothing can store."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _quoted(data: bytes) -> str:
    return plain(data[-4 * _TAIL :].decode("utf-8", "replace")).strip()[-_TAIL:]


class _Command:
    """A command that gets JSON on stdin and answers on stdout."""

    def __init__(self, words: Sequence[str], given: bytes, folder: Path) -> None:
        self._words = words
        self._given = memoryview(given)
        self._folder = folder
        self._out, self._err = bytearray(), bytearray()

    def answer(self, seconds: float, stopped: threading.Event) -> bytes:
        """Run it to its end, and return what it wrote to stdout. Raises `HookFailed` and `HookStopped`."""
        until = time.monotonic() + seconds
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(tied(self._words), stdin=pipe, stdout=pipe, stderr=pipe, cwd=self._folder, start_new_session=True)
        except (OSError, ValueError) as error:  # a null character
            raise HookFailed(f"cannot be started: {getattr(error, 'strerror', None) or error}.") from None
        with process, DefaultSelector() as selector:
            try:
                self._follow(process, selector, lambda: self._check(until, seconds, stopped))
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode:
            how = f"with exit code {process.returncode}" if process.returncode > 0 else f"by signal {-process.returncode}"
            raise HookFailed(f"ended {how}{self._complaint()}")
        return bytes(self._out)

    def _follow(self, process: subprocess.Popen[bytes], selector: DefaultSelector, check: Callable[[], None]) -> None:
        """Write and read until the process has ended. A process that it leaves behind may hold its pipes open."""
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, EVENT_WRITE if stream is process.stdin else EVENT_READ)
        while True:
            check()
            ended = process.poll() is not None
            ready = selector.select(0 if ended else _CHECK) if selector.get_map() else []
            for key, _ in ready:
                stream = cast("IO[bytes]", key.fileobj)
                if not (
                    self._write(stream) if stream is process.stdin else self._read(stream, into=self._out if stream is process.stdout else self._err)
                ):
                    selector.unregister(stream)
                    stream.close()
            if ended and not ready:
                return
            if not selector.get_map() and not ended:
                with suppress(subprocess.TimeoutExpired):  # it has closed its output, and ends, or goes on
                    process.wait(_CHECK)

    def _write(self, stdin: IO[bytes]) -> bool:
        """Write what fits; returns whether there is more."""
        try:
            self._given = self._given[os.write(stdin.fileno(), self._given) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:  # it does not read
            return False
        return bool(self._given)

    def _read(self, stream: IO[bytes], into: bytearray) -> bool:
        """Read what there is; returns whether more may come."""
        data = os.read(stream.fileno(), 1 << 16)
        into += data
        if into is self._err:
            del into[: -4 * _TAIL]
        elif len(into) > LARGEST:
            raise HookFailed(f"wrote more than {LARGEST:,} bytes{self._complaint()}")
        return bool(data)

    def _check(self, until: float, seconds: float, stopped: threading.Event) -> None:
        if stopped.is_set():
            raise HookStopped
        if time.monotonic() > until:
            raise HookFailed(f"did not end within {seconds:g} s{self._complaint()}")

    def _complaint(self) -> str:
        """Return the end of what it wrote to stderr, as the end of a sentence."""
        return f": {text}" if (text := _quoted(bytes(self._err))) else "."


def _call(name: str, given: Mapping[str, Any], seconds: float, stopped: threading.Event) -> Any:
    """Call ``module:function`` on a thread of its own, which is abandoned at the time limit. Raises `HookFailed` and `HookStopped`."""
    ended: queue.SimpleQueue[tuple[Any, str]] = queue.SimpleQueue()

    def work() -> None:
        try:
            ended.put((_function(name)(dict(given)), ""))
        except BaseException as error:  # the thread's outermost frame
            ended.put((None, plain(f"raised {type(error).__name__}: {error}")[:_TAIL]))

    threading.Thread(target=work, name="hook", daemon=True).start()
    until = time.monotonic() + seconds
    while not stopped.is_set():
        try:
            value, failure = ended.get(timeout=_CHECK)
        except queue.Empty:
            if time.monotonic() > until:
                raise HookFailed(f"did not return within {seconds:g} s; its thread goes on.") from None
            continue
        if failure:
            raise HookFailed(failure)
        return value
    raise HookStopped


def _function(name: str) -> Callable[[dict[str, Any]], Any]:
    """Import a function: from the program's Python, or a module in ``~/.mahtab/hooks``."""
    module, _, function = name.partition(":")
    folder = str(home_folder() / "hooks")
    if folder not in sys.path:
        sys.path.append(folder)  # at the end, so that nothing there hides a module of the program
    with IMPORTS.turn():
        found: Callable[[dict[str, Any]], Any] = getattr(importlib.import_module(module), function)
    return found
