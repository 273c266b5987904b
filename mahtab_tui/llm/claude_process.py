"""One `claude` process, and how it reaches its service.

Only the environment's ANTHROPIC_API_KEY is withheld from it, because it would bill the key instead
of the login. A gateway's address is never withheld, since prompts would then go where the user does
not want them."""

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
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.claude_events import NOTHING_SPENT
from mahtab_tui.system.processes import find_program, safe_path, tie_to_parent

KEY = "ANTHROPIC_API_KEY"
_GATEWAY = "ANTHROPIC_BASE_URL"
USER_SETTINGS = ("--safe-mode", "--setting-sources", "user")
"""The user's settings say how to reach the service (`env`, `apiKeyHelper`). Safe mode ignores their
hooks, memory, skills and plug-ins."""
_PATIENCE = 20
"""Seconds that `claude auth status` may take; usually less than one."""


class LoginStatus(NamedTuple):
    """The output of `claude auth status`."""

    logged_in: bool
    method: str
    """Such as "claude.ai, max" or "api_key_helper"; empty if nobody is logged in."""


def login_environment(*, use_api_key: bool) -> dict[str, str]:
    """Return the environment for `claude`. use_api_key: pass the key even if no gateway needs
    it."""
    own = {
        name: value
        for name, value in os.environ.items()
        if name != KEY or not _is_withheld(use_api_key)
    }
    return {**own, "PATH": safe_path()}


def login_hint(*, use_api_key: bool) -> str:
    """Return a hint for when the login is not accepted: where requests go, and which key was not
    used. May be empty."""
    hints = []
    if gateway := gateway_address():
        hints.append(f"Requests go to {gateway} ({_GATEWAY}).")
    if _is_withheld(use_api_key):
        hints.append(
            f"{KEY} is set but was not passed to `claude`, which would bill it. To pass it: `mahtab-tui config set claude_api_key true`."
        )
    return " ".join(hints)


def gateway_address() -> str:
    """Return the gateway that the user has set for `claude`, or an empty string. Like `claude`, it
    prefers the settings to the environment."""
    file = Path(
        os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"), "settings.json"
    )
    try:
        address = json.loads(file.read_bytes())["env"][_GATEWAY]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        address = None
    return _host(address if isinstance(address, str) and address else os.environ.get(_GATEWAY, ""))


def _host(address: str) -> str:
    """Return scheme, host and port of an address, without path and query, which may hold a password
    or key."""
    if not address:
        return ""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, f":{parts.port}" if parts.port else ""
    except ValueError:
        host = None
    return f"{parts.scheme}://{host}{port}".removeprefix("://") if host else "a gateway"


def login_status(executable: str, *, use_api_key: bool) -> LoginStatus | None:
    """Ask `claude` whether it is logged in; None if it does not say. Raises `OSError`,
    `subprocess.TimeoutExpired`."""
    answer = subprocess.run(
        [executable, *USER_SETTINGS, "auth", "status"],
        env=login_environment(use_api_key=use_api_key),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PATIENCE,
        check=False,
    )
    try:
        status: dict[str, Any] = json.loads(answer.stdout)
        logged_in = bool(status["loggedIn"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    method = [
        str(status[name])
        for name in ("authMethod", "subscriptionType", "apiProvider")
        if status.get(name) not in (None, "", "none", "firstParty")
    ]
    return LoginStatus(logged_in, ", ".join(method))


def _is_withheld(use_api_key: bool) -> bool:
    """Tell whether a key is withheld from `claude`. A gateway gets the key, since otherwise the
    login would be sent there."""
    return bool(os.environ.get(KEY)) and not use_api_key and not gateway_address()


_NEUTRAL = json.dumps({"outputStyle": "default", "permissions": {"defaultMode": "default"}})
"""Overrides the user's settings, since their output style would affect every answer, even
checks."""
_MOST_TURNS = "3"
"""The CLI answers a call of a tool, of which there are none, by an error, and the model goes on in
another turn."""
_LONGEST_ERROR = 10_000
"""Bytes that are kept of a line that is no event."""
RETRIES = 4
REACTION = 2.0
"""Seconds that the process gets to react to an interrupt, and then to a signal."""


def environment(
    max_tokens: int | None = None, *, thinking: bool = True, use_api_key: bool = False
) -> dict[str, str]:
    """Return the process's environment. max_tokens: of one message; None: as the user has set it,
    otherwise the model's limit."""
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
    return env if thinking else env | {"CLAUDE_CODE_DISABLE_THINKING": "1"}


def command(executable: str, model: str | None, effort: str | None, system_file: str) -> list[str]:
    """Return the command line: text only, no tools, nothing read from the folder; prompts come on
    stdin."""
    argv = [
        executable,
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
    ]
    argv += ["--system-prompt-file", system_file, "--tools", "", "--strict-mcp-config"]
    argv += [*USER_SETTINGS, "--settings", _NEUTRAL]
    argv += ["--no-session-persistence", "--disable-slash-commands", "--max-turns", _MOST_TURNS]
    argv += ["--effort", effort] if effort else []
    return [*argv, "--model", model] if model else argv


class ClaudeProcess:
    """A process in its own session, so that its whole group can be ended. It leaves no file, since
    the prompt's file has no name."""

    def __init__(
        self,
        system: str,
        *,
        model: str | None,
        effort: str | None = None,
        folder: str,
        env: Mapping[str, str],
    ) -> None:
        """folder: where it runs; this program's folder if empty or not accessible. Raises
        `ModelError`."""
        executable = find_program("claude")
        if executable is None:
            raise ModelError(
                "The program `claude` is not on the PATH. Install Claude Code, or choose another model, as in /model demo."
            )
        self._system = system
        self._folder = folder
        self.spent = NOTHING_SPENT
        """Its usage since its start."""
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._errors: deque[str] = deque(maxlen=20)
        self._writing = threading.Lock()
        started: Future[subprocess.Popen[bytes]] = Future()
        # Neither thread refers to this object, so that the process also ends when the object is
        # garbage-collected.
        reading = (
            partial(_start, executable, model, effort, system, folder, env),
            started,
            self._lines,
            self._errors,
        )
        self._threads = [threading.Thread(target=_live, args=reading, name="claude", daemon=True)]
        self._threads[0].start()
        try:
            self._child = started.result()
        except OSError as error:
            raise ModelError(f"`claude` could not be started: {error.strerror}.") from None
        self._threads.append(
            threading.Thread(
                target=_read_errors, args=(self._child, self._errors), name="claude", daemon=True
            )
        )
        self._threads[1].start()
        # Ends the process even without `close`: when the interpreter exits or the model is
        # garbage-collected.
        self._finalizer = weakref.finalize(self, _end, self._child)

    def matches(self, system: str, folder: str) -> bool:
        """Tell whether it is alive and has this system prompt and folder."""
        return self.alive and (self._system, self._folder) == (system, folder)

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def ask(self, content: str | list[dict[str, Any]]) -> None:
        """Send a question, a text or blocks, on a thread, so that neither side can block the
        other."""
        with contextlib.suppress(queue.Empty):
            while (
                self.next_event(0) is not None
            ):  # what is left of the last turn, such as an answer to a control request
                pass
        message = {
            "type": "user",
            "message": {"role": "user", "content": content},
            "client_composed": True,
        }
        threading.Thread(
            target=self._write, args=(message,), name="claude-write", daemon=True
        ).start()

    def next_event(self, timeout: float) -> dict[str, Any] | None:
        """Return the next event, or None if the process has ended. Raises `queue.Empty` after
        `timeout` seconds."""
        event = self._lines.get(timeout=timeout)
        if event is None:
            self._lines.put(None)
        return event

    def interrupt(self) -> None:
        """Ask it to stop the turn."""
        request = {
            "type": "control_request",
            "request_id": str(uuid.uuid4()),
            "request": {"subtype": "interrupt"},
        }
        threading.Thread(
            target=self._write, args=(request,), name="claude-write", daemon=True
        ).start()

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    def describe_exit(self) -> str:
        """Describe how it ended and its last error output in a sentence."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(REACTION)
        self._threads[1].join(REACTION)
        code = self._child.returncode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        errors = " ".join(" ".join(self._errors).split())[-300:]
        if "unknown option" in errors:
            return f"This version of `claude` is too old ({errors}). Run `claude update`."
        return f"`claude` ended {how}{': ' + errors if errors else ''}."

    def close(self) -> None:
        """End the process and its group."""
        self._finalizer()
        for thread in self._threads:
            thread.join(REACTION)

    def _write(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        assert self._child.stdin is not None
        with self._writing, contextlib.suppress(OSError, ValueError):
            self._child.stdin.write(data)
            self._child.stdin.flush()


def _start(
    executable: str,
    model: str | None,
    effort: str | None,
    system: str,
    folder: str,
    env: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Start the process on the thread with which it shall end (see `tie_to_parent`). Raises
    `OSError`."""
    with tempfile.TemporaryFile() as file:
        file.write(system.encode("utf-8", "replace"))
        file.seek(0)
        return subprocess.Popen(
            tie_to_parent(
                command(executable, model, effort, f"/dev/fd/{file.fileno()}"), signal.SIGTERM
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[file.fileno()],
            cwd=folder if os.path.isdir(folder) and os.access(folder, os.X_OK) else None,
            env=dict(env),
            start_new_session=True,
        )


def _live(
    start: Callable[[], subprocess.Popen[bytes]],
    started: Future[subprocess.Popen[bytes]],
    lines: queue.Queue[dict[str, Any] | None],
    errors: deque[str],
) -> None:
    """Start the process and read its output until it ends."""
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
                errors.append(line[-_LONGEST_ERROR:].decode("utf-8", "replace"))
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
    """End a process group, which would otherwise outlive this program."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(REACTION)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
