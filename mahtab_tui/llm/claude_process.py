"""One `claude` process, and the events that version 2.1 prints in a turn. Only ANTHROPIC_API_KEY is
withheld from it, because it would bill the key instead of the login."""

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
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.llm.base import (
    BUSY_STATUSES,
    REFUSED,
    ModelBusy,
    ModelError,
    ServiceError,
    as_mapping,
    explain_error,
)
from mahtab_tui.system import find_program, safe_path, signal_group, start_thread, tie_to_parent

# The events of a turn

_SYNTHETIC = "<synthetic>"
_LOG_IN = "The login of `claude` was not accepted. Run `claude`, then /login in it. {hint}"
_WRONG_TOOL = "The model tried again and again to use a tool that it does not have here. Ask again in other words."
_LIMITS = {"rejected": "is reached", "allowed_warning": "is nearly reached"}
_COUNTS = {
    "inputTokens": "input_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheCreationInputTokens": "cache_creation_input_tokens",
    "outputTokens": "output_tokens",
}
_COMPACTED = "`claude` has replaced the beginning of this conversation with its own summary, so the model may have forgotten details."


class ClaudeNotice(NamedTuple):
    level: str
    text: str
    once: str = ""
    """A key for messages that are shown only once; empty for others."""


class Restart(NamedTuple):
    text: str


class Thought(NamedTuple):
    text: str


class ProcessTotals(NamedTuple):
    cost: float
    usage: Counter[str]
    """Tokens, by the service's names; `input_tokens` were not in the cache."""


NOTHING_SPENT = ProcessTotals(0.0, Counter())


class ClaudeTurn:
    """Folds the events of one turn; unknown events are ignored."""

    def __init__(self, before: ProcessTotals = NOTHING_SPENT, login_hint: str = "") -> None:
        self.streamed = ""
        self.began_anew = False
        self.ended = False
        self.model = ""
        self.stop_reason: str | None = None
        self.spent = before
        self.key_source = ""
        self.window: int | None = None
        self._before = before
        self._login_hint = login_hint
        self._texts: list[str] = []
        self._finished = (0, 0)
        """How much of `streamed` and of `_texts` comes from messages that ended normally."""
        self._cut = False
        self._error: tuple[str, str] | None = None
        self._result: Mapping[str, Any] = {}
        self._streamed_usage = Counter[str]()
        self._message_usage = Counter[str]()

    @property
    def cost(self) -> float:
        return max(0.0, self.spent.cost - self._before.cost)

    @property
    def usage(self) -> Counter[str]:
        """The result lacks calls that broke off, and the stream lacks the CLI's own calls, so the
        greater count of both is used."""
        sums = self.spent.usage - self._before.usage
        return sums | (self._streamed_usage + self._message_usage)

    @property
    def text(self) -> str:
        return "".join(self._texts) or self.streamed

    def fold(self, event: Mapping[str, Any]) -> Iterator[str | Thought | Restart | ClaudeNotice]:
        kind = event.get("type")
        if kind == "stream_event":
            yield from self._stream(as_mapping(event.get("event")))
        elif kind == "assistant":
            self._assistant(event)
        elif kind == "system":
            yield from self._system(event)
        elif kind == "rate_limit_event":
            yield from _limit_notice(as_mapping(event.get("rate_limit_info")))
        elif kind == "result":
            self._finish(event)

    def check(self) -> None:
        result = self._result
        if not result.get("is_error") or result.get("terminal_reason") == "aborted_streaming":
            return
        if result.get("subtype") == "error_max_turns":
            raise ModelError(_WRONG_TOOL)
        if result.get("stop_reason") == "refusal":
            raise ModelError(REFUSED)
        reason, kind = self._error or ("", "")
        reason = reason or str(result.get("result") or result.get("errors") or "")
        status = result.get("api_error_status")
        if (status or kind) in (401, "authentication_failed"):
            raise ModelError(_LOG_IN.format(hint=self._login_hint).strip())
        failure = explain_error(ServiceError({"message": reason, "type": kind}, status))
        # Without a pause, since the CLI has already tried again.
        raise ModelBusy(str(failure)) if isinstance(failure, ModelBusy) else failure

    def _stream(self, event: Mapping[str, Any]) -> Iterator[str | Thought | Restart]:
        kind, delta = event.get("type"), as_mapping(event.get("delta"))
        if kind == "message_start":
            yield from self._begin_message(as_mapping(event.get("message")))
        elif kind == "content_block_delta" and delta.get("type") == "text_delta":
            text = str(delta.get("text", ""))
            self.streamed += text
            yield text
        elif kind == "content_block_delta" and delta.get("type") == "thinking_delta":
            yield Thought(str(delta.get("thinking", "")))
        elif kind == "message_delta":
            reason = delta.get("stop_reason")
            self.stop_reason = reason or self.stop_reason
            self._cut = reason == "max_tokens"
            self._message_usage |= _usage(event.get("usage"))
            if reason != "refusal":
                self._finished = (len(self.streamed), len(self._texts))

    def _begin_message(self, message: Mapping[str, Any]) -> Iterator[Restart]:
        """The last message counts only if it ended normally: the CLI repeats a broken stream and
        replaces a refused message."""
        self._streamed_usage += self._message_usage
        self._message_usage = _usage(message.get("usage"))
        streamed, whole = self._finished
        del self._texts[whole:]
        if len(self.streamed) > streamed:
            self.streamed = self.streamed[:streamed]
            self.began_anew = True
            yield Restart(self.streamed)

    def _assistant(self, event: Mapping[str, Any]) -> None:
        message = as_mapping(event.get("message"))
        content = message.get("content")
        blocks = map(as_mapping, content if isinstance(content, list) else [])
        text = "".join(str(each.get("text", "")) for each in blocks if each.get("type") == "text")
        if message.get("model") == _SYNTHETIC:
            self._error = (text, str(event.get("error") or ""))
            return
        self.model = str(message.get("model") or self.model)
        if text:
            # After the token limit the CLI continues in the middle of a sentence.
            if self._texts and not self._cut:
                self._texts.append("\n\n")
            self._texts.append(text)

    def _system(self, event: Mapping[str, Any]) -> Iterator[ClaudeNotice]:
        kind = event.get("subtype")
        if kind == "init":
            self.key_source = str(event.get("apiKeySource") or "")
            self.model = str(event.get("model") or self.model)
        elif kind == "api_retry":
            status = event.get("error_status")
            status = status if isinstance(status, int) else 0
            reason = BUSY_STATUSES.get(status, "The connection failed")
            seconds = float(event.get("retry_delay_ms") or 0) / 1000
            tries = f"{event.get('attempt')} of {event.get('max_retries')}"
            yield ClaudeNotice("warning", f"{reason}; trying again ({tries}) in {seconds:.0f} s.")
        elif kind == "informational":
            level = "warning" if event.get("level") == "warning" else "info"
            yield ClaudeNotice(level, f"claude: {event.get('content')}")
        elif kind == "compact_boundary":
            yield ClaudeNotice("warning", _COMPACTED)

    def _finish(self, event: Mapping[str, Any]) -> None:
        self.ended = True
        self._result = event
        models = [as_mapping(used) for used in as_mapping(event.get("modelUsage")).values()]
        sizes = [size for used in models if isinstance(size := used.get("contextWindow"), int)]
        self.window = max(sizes, default=0) or None
        usage = self._before.usage | sum(map(_usage, models), Counter[str]())
        self.spent = ProcessTotals(float(event.get("total_cost_usd") or self.spent.cost), usage)
        self.stop_reason = event.get("stop_reason") or self.stop_reason


def _limit_notice(info: Mapping[str, Any]) -> Iterator[ClaudeNotice]:
    kind = " ".join(str(info.get("rateLimitType") or "").split("_"))
    text = _LIMITS.get(str(info.get("status")), "")
    if info.get("isUsingOverage") is True:
        kind, text = kind or "usage", "is used up; answers are now billed as extra usage"
    if not text or not kind:  # not a limit of the account; the CLI tells what it is
        return
    again = ""
    with contextlib.suppress(OverflowError, OSError, ValueError, TypeError):
        until = datetime.fromtimestamp(info.get("resetsAt"))  # type: ignore[arg-type]
        again = f" It resets on {until:%A at %H:%M}."
    text = f"The {kind} limit of the account {text}.{again}"
    yield ClaudeNotice("warning", text, once=text)


def _usage(usage: Any) -> Counter[str]:
    known = ((_COUNTS.get(name, name), count) for name, count in as_mapping(usage).items())
    names = _COUNTS.values()
    return Counter({name: n for name, n in known if name in names and isinstance(n, int)})


# How the process reaches its service

KEY = "ANTHROPIC_API_KEY"
_GATEWAY = "ANTHROPIC_BASE_URL"
USER_SETTINGS = ("--safe-mode", "--setting-sources", "user")
"""The user's settings say how to reach the service. Safe mode ignores their hooks, memory, skills
and plug-ins."""
_PATIENCE = 20


def login_environment(*, use_api_key: bool) -> dict[str, str]:
    env = {**os.environ, "PATH": safe_path()}
    if _is_withheld(use_api_key):
        del env[KEY]
    return env


def login_hint(*, use_api_key: bool) -> str:
    """Return a hint for a rejected login: where requests go, or which key was not used."""
    if has_gateway():
        return f"Requests go to the gateway in {_GATEWAY}."
    if _is_withheld(use_api_key):
        return f"{KEY} is set but was not passed to `claude`, which would bill it. To pass it: `mahtab-tui config set claude_api_key true`."
    return ""


def has_gateway() -> bool:
    """Tell whether the user has set a gateway for `claude`, in its settings or the environment."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    try:
        address = json.loads(Path(folder, "settings.json").read_bytes())["env"][_GATEWAY]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        address = None
    return (isinstance(address, str) and bool(address)) or bool(os.environ.get(_GATEWAY))


def login_status(executable: str, *, use_api_key: bool) -> Mapping[str, Any]:
    try:
        answer = subprocess.run(
            [executable, *USER_SETTINGS, "auth", "status"],
            env=login_environment(use_api_key=use_api_key),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
        return as_mapping(json.loads(answer.stdout))
    except (OSError, subprocess.TimeoutExpired, ValueError, RecursionError):
        return {}


def _is_withheld(use_api_key: bool) -> bool:
    """A gateway gets the key, since otherwise the login would be sent there."""
    return bool(os.environ.get(KEY)) and not use_api_key and not has_gateway()


# The process

_NEUTRAL = json.dumps({"outputStyle": "default", "permissions": {"defaultMode": "default"}})
"""Overrides the user's settings, since their output style would affect every answer, even
checks."""
_MOST_TURNS = "3"
"""The CLI answers a tool call with an error, and the model continues in another turn."""
_LONGEST_ERROR = 10_000
RETRIES = 4
REACTION = 2.0
"""Seconds for the process to react to an interrupt, and then to SIGTERM."""


def environment(max_tokens: int | None = None, *, use_api_key: bool = False) -> dict[str, str]:
    """max_tokens: of one message; None: as the user has set it, otherwise the model's limit."""
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
    """Return the command line: text only, no tools, nothing read from the folder; prompts come on
    stdin."""
    argv = [executable, "-p", "--input-format", "stream-json", "--output-format", "stream-json"]
    argv += ["--verbose", "--include-partial-messages"]
    argv += ["--system-prompt-file", system_file, "--tools", "", "--strict-mcp-config"]
    argv += [*USER_SETTINGS, "--settings", _NEUTRAL]
    argv += ["--no-session-persistence", "--disable-slash-commands", "--max-turns", _MOST_TURNS]
    return [*argv, "--model", model] if model else argv


class ClaudeProcess:
    """A process in its own session, so that its whole group can be ended."""

    def __init__(
        self, system: str, *, model: str | None, folder: str, env: Mapping[str, str]
    ) -> None:
        """folder: this program's folder if empty or not accessible. Raises `ModelError`."""
        executable = find_program("claude")
        if executable is None:
            raise ModelError(
                "The program `claude` is not on the PATH. Install Claude Code, or choose another model, as in /model demo."
            )
        self._system = system
        self._folder = folder
        self.spent = NOTHING_SPENT
        self.sent: Sequence[Any] = ()
        """The messages that it knows; none before its first question."""
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._errors: deque[str] = deque(maxlen=20)
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
        """Return the next event, or None if the process has ended. Raises `queue.Empty` after
        `timeout` seconds."""
        event = self._lines.get(timeout=timeout)
        if event is None:
            self._lines.put(None)
        return event

    def interrupt(self) -> None:
        request = {"type": "control_request", "request_id": str(uuid.uuid4())}
        start_thread("claude", self._write, {**request, "request": {"subtype": "interrupt"}})

    def describe_exit(self) -> str:
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
    executable: str, model: str | None, system: str, folder: str, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start the process on the thread that it must not outlive (see `tie_to_parent`)."""
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
            cwd=folder if os.path.isdir(folder) and os.access(folder, os.X_OK) else None,
            env=dict(env),
            start_new_session=True,
        )


def _read_events(
    start: Callable[[], subprocess.Popen[bytes]],
    started: Future[subprocess.Popen[bytes]],
    lines: queue.Queue[dict[str, Any] | None],
    errors: deque[str],
) -> None:
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
    signal_group(child.pid, signal.SIGTERM)
    try:
        child.wait(REACTION)
    except subprocess.TimeoutExpired:
        signal_group(child.pid, signal.SIGKILL)
        child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
