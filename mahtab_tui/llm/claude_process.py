"""One `claude` process: started, asked, interrupted and ended."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.claude_login import USER_SETTINGS, login_environment
from mahtab_tui.llm.claude_turn import NOTHING_SPENT
from mahtab_tui.system import find_program, signal_group, start_thread, tie_to_parent

_NEUTRAL_SETTINGS = json.dumps(
    {"outputStyle": "default", "permissions": {"defaultMode": "default"}}
)
"""Overrides the user's settings, since their output style would affect every answer, even
checks."""
_MAX_TURNS = "3"
"""The CLI answers a tool call with an error, and the model continues in another turn."""
RETRIES = 4
"""Attempts of the CLI after the first, if a service is busy."""
REACTION_TIMEOUT_S = 2.0
"""Seconds for the process to react to an interrupt, and then to SIGTERM."""
_MAX_ERROR_LINE_BYTES = 10_000
_MAX_ERROR_LINES = 20
"""The last lines that it has printed to stderr, or as something else than JSON."""
_MAX_ERROR_CHARS = 300
"""Characters of these in a sentence for the user."""


def environment(max_tokens: int | None = None, *, use_api_key: bool = False) -> dict[str, str]:
    """Return the variables of a process.

    Args:
        max_tokens: Tokens of one message at most; None for what the user has set, or else the
            model's limit.
        use_api_key: Whether the key of the environment may be billed.
    """
    env = login_environment(use_api_key=use_api_key) | {
        # Otherwise an @path anywhere in a prompt would make the CLI read that file and send it.
        "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
        "CLAUDE_CODE_MAX_RETRIES": str(RETRIES),
        # We shorten long conversations and tell the user; a summary by the CLI would be a hidden
        # call.
        "DISABLE_AUTO_COMPACT": "1",
    }
    if max_tokens is not None:  # thinking counts towards it, and must leave room for the answer
        env |= {
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max_tokens),
            "MAX_THINKING_TOKENS": str(max_tokens // 2),
        }
    return env


def command(executable: str, model: str | None, system_file: str) -> list[str]:
    """Return the command line: text only, no tools, nothing read from the folder.

    Prompts come on stdin.
    """
    argv = [executable, "-p", "--input-format", "stream-json", "--output-format", "stream-json"]
    argv += ["--verbose", "--include-partial-messages"]
    argv += ["--system-prompt-file", system_file, "--tools", "", "--strict-mcp-config"]
    argv += [*USER_SETTINGS, "--settings", _NEUTRAL_SETTINGS]
    argv += ["--no-session-persistence", "--disable-slash-commands", "--max-turns", _MAX_TURNS]
    return [*argv, "--model", model] if model else argv


class ClaudeProcess:
    """A process in its own session, so that its whole group can be ended."""

    def __init__(
        self, system: str, *, model: str | None, folder: str, env: Mapping[str, str]
    ) -> None:
        """Start the process.

        Args:
            system: The system prompt.
            model: The model's name; None for the user's default.
            folder: Where it runs; this program's folder if it is empty or not accessible.
            env: Its variables.

        Raises:
            ModelError: It is not installed, or cannot be started.
        """
        executable = find_program("claude")
        if executable is None:
            raise ModelError(
                "The program `claude` is not on the PATH. Install Claude Code, or choose another model, as in /model demo."
            )
        self._system = system
        self._folder = folder
        self.spent = NOTHING_SPENT
        """What it has used in all turns so far."""
        self.sent: Sequence[Any] = ()
        """The messages that it knows; none before its first question."""
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._errors: deque[str] = deque(maxlen=_MAX_ERROR_LINES)
        self._writing = threading.Lock()
        started: Future[subprocess.Popen[bytes]] = Future()
        start = partial(_start, executable, model, system, folder, env)
        # Neither thread refers to this object, so that it can be collected.
        self._threads = [
            start_thread("claude", _read_events, start, started, self._lines, self._errors)
        ]
        try:
            self._child = started.result()
        except OSError as error:
            raise ModelError(f"`claude` could not be started: {error.strerror}.") from None
        self._threads.append(start_thread("claude", _read_errors, self._child, self._errors))
        # Also if `close` is not called, or the interpreter exits.
        self._finalizer = weakref.finalize(self, _end, self._child)

    def matches(self, system: str, folder: str) -> bool:
        """Return whether it runs with this system prompt, in this folder."""
        return self.alive and (self._system, self._folder) == (system, folder)

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def ask(self, content: str | list[dict[str, Any]]) -> None:
        """Send a question on a thread, so that neither side can block the other."""
        with contextlib.suppress(queue.Empty):
            # Left over from the last turn, such as an answer to a control request.
            while self.next_event(0) is not None:
                pass
        message = {"role": "user", "content": content}
        question = {"type": "user", "message": message, "client_composed": True}
        start_thread("claude", self._write, question)

    def next_event(self, timeout: float) -> dict[str, Any] | None:
        """Return the next event, or None if the process has ended.

        Raises `queue.Empty` after `timeout` seconds.
        """
        event = self._lines.get(timeout=timeout)
        if event is None:
            self._lines.put(None)
        return event

    def interrupt(self) -> None:
        """Ask the process to end its turn, on a thread."""
        request = {"type": "control_request", "request_id": str(uuid.uuid4())}
        start_thread("claude", self._write, {**request, "request": {"subtype": "interrupt"}})

    def describe_exit(self) -> str:
        """Return a sentence saying how the process ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(REACTION_TIMEOUT_S)
        self._threads[1].join(REACTION_TIMEOUT_S)

        exit_code = self._child.returncode
        manner = f"with exit code {exit_code}"
        if exit_code is not None and exit_code < 0:
            manner = f"by signal {-exit_code}"
        errors = " ".join(" ".join(self._errors).split())[-_MAX_ERROR_CHARS:]
        if "unknown option" in errors:
            return f"This version of `claude` is too old ({errors}). Run `claude update`."
        if not errors:
            return f"`claude` ended {manner}."
        return f"`claude` ended {manner}: {errors}."

    def close(self) -> None:
        """End the process and its group."""
        self._finalizer()
        for thread in self._threads:
            thread.join(REACTION_TIMEOUT_S)

    def _write(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        assert self._child.stdin is not None
        with self._writing, contextlib.suppress(OSError, ValueError):
            self._child.stdin.write(data)
            self._child.stdin.flush()


def _start(
    executable: str, model: str | None, system: str, folder: str, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start the process on the thread that it must not outlive (see `tie_to_parent`)."""
    can_use_folder = os.path.isdir(folder) and os.access(folder, os.X_OK)
    with tempfile.TemporaryFile() as file:
        file.write(system.encode("utf-8", "replace"))
        file.seek(0)
        argv = command(executable, model, f"/dev/fd/{file.fileno()}")
        return subprocess.Popen(
            tie_to_parent(argv, signal.SIGTERM),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[file.fileno()],
            cwd=folder if can_use_folder else None,
            env=dict(env),
            start_new_session=True,
        )


def _read_events(
    start: Callable[[], subprocess.Popen[bytes]],
    started: Future[subprocess.Popen[bytes]],
    lines: queue.Queue[dict[str, Any] | None],
    errors: deque[str],
) -> None:
    """Start the process, and put its events into a queue; None at their end."""
    try:
        child = start()
    except BaseException as error:
        started.set_exception(error)
        return
    started.set_result(child)
    assert child.stdout is not None
    try:
        for line in child.stdout:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                errors.append(line[-_MAX_ERROR_LINE_BYTES:].decode("utf-8", "replace"))
                continue
            if isinstance(event, dict):
                lines.put(event)
    except (OSError, ValueError):
        pass
    finally:
        lines.put(None)


def _read_errors(child: subprocess.Popen[bytes], errors: deque[str]) -> None:
    assert child.stderr is not None
    with contextlib.suppress(OSError, ValueError):
        for line in child.stderr:
            errors.append(line.decode("utf-8", "replace"))


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process and its group, if need be by SIGKILL."""
    signal_group(child.pid, signal.SIGTERM)
    try:
        child.wait(REACTION_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        signal_group(child.pid, signal.SIGKILL)
        child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
