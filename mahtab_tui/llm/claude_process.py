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

KEY = "ANTHROPIC_API_KEY"
_GATEWAY = "ANTHROPIC_BASE_URL"
USER_SETTINGS = ("--safe-mode", "--setting-sources", "user")
"""The user's settings say how to reach the service. Safe mode ignores their hooks, memory, skills
and plug-ins."""
_NEUTRAL_SETTINGS = json.dumps(
    {"outputStyle": "default", "permissions": {"defaultMode": "default"}}
)
"""Overrides the user's settings, since their output style would affect every answer, even
checks."""
_LOGIN_STATUS_TIMEOUT_S = 20
_MAX_TURNS = "3"
"""The CLI answers a tool call with an error, and the model continues in another turn."""
RETRIES = 4
REACTION_TIMEOUT_S = 2.0
"""Seconds for the process to react to an interrupt, and then to SIGTERM."""
_MAX_ERROR_LINE_BYTES = 10_000
_MAX_ERROR_CHARS = 300
_MAX_ERROR_LINES = 20


class ClaudeNotice(NamedTuple):
    """A sentence for the user."""

    level: str
    text: str
    once_key: str = ""
    """A key for messages that are shown only once; empty for others."""


class Restart(NamedTuple):
    """The answer starts again."""

    text: str
    """What stays of it."""


class Thought(NamedTuple):
    """A piece of the model's thinking."""

    text: str


class ProcessTotals(NamedTuple):
    """What a process has used in all its turns."""

    cost: float
    """US dollars."""
    usage: Counter[str]
    """Tokens, by the service's names; `input_tokens` were not in the cache."""


NOTHING_SPENT = ProcessTotals(0.0, Counter())


class ClaudeTurn:
    """Folds the events of one turn; unknown events are ignored."""

    def __init__(self, totals_before: ProcessTotals = NOTHING_SPENT, login_hint: str = "") -> None:
        """Begin a turn of a process.

        Args:
            totals_before: what the process had used before.
            login_hint: advice if the login is not accepted.
        """
        self.has_restarted = False
        self.ended = False
        self.model = ""
        self.stop_reason: str | None = None
        self.spent = totals_before
        self.key_source = ""
        self.window: int | None = None
        self._totals_before = totals_before
        self._login_hint = login_hint
        self._texts: list[str] = []
        self._streamed_pieces: list[str] = []
        self._finished_pieces = 0
        """How many of `_streamed_pieces` come from messages that ended normally."""
        self._finished_texts = 0
        """How many of `_texts` do."""
        self._cut = False
        self._error_text = ""
        self._error_type = ""
        """What the CLI calls the error, such as ``authentication_failed``."""
        self._result: Mapping[str, Any] = {}
        self._streamed_usage = Counter[str]()
        self._message_usage = Counter[str]()

    @property
    def cost(self) -> float:
        return max(0.0, self.spent.cost - self._totals_before.cost)

    @property
    def usage(self) -> Counter[str]:
        """Tokens of this turn. The result lacks calls that broke off, and the stream lacks the CLI's
        own calls, so the greater count of both is used."""
        result_usage = self.spent.usage - self._totals_before.usage
        return result_usage | (self._streamed_usage + self._message_usage)

    @property
    def streamed(self) -> str:
        """The answer as it was streamed, without messages that broke off."""
        return "".join(self._streamed_pieces)

    @property
    def text(self) -> str:
        return "".join(self._texts) or self.streamed

    def fold(self, event: Mapping[str, Any]) -> Iterator[str | Thought | Restart | ClaudeNotice]:
        """Take an event, and yield what is new in the answer."""
        event_type = event.get("type")
        if event_type == "stream_event":
            yield from self._take_stream_event(as_mapping(event.get("event")))
        elif event_type == "assistant":
            self._take_message(event)
        elif event_type == "system":
            yield from self._take_system_event(event)
        elif event_type == "rate_limit_event":
            yield from _limit_notice(as_mapping(event.get("rate_limit_info")))
        elif event_type == "result":
            self._finish(event)

    def check(self) -> None:
        """Raise `ModelError` if the turn has failed."""
        result = self._result
        if not result.get("is_error") or result.get("terminal_reason") == "aborted_streaming":
            return
        if result.get("subtype") == "error_max_turns":
            raise ModelError(_WRONG_TOOL)
        if result.get("stop_reason") == "refusal":
            raise ModelError(REFUSED)

        message = self._error_text or str(result.get("result") or result.get("errors") or "")
        status = result.get("api_error_status")
        if (status or self._error_type) in (401, "authentication_failed"):
            raise ModelError(_LOG_IN.format(hint=self._login_hint).strip())
        body = {"message": message, "type": self._error_type}
        failure = explain_error(ServiceError(body, status))
        # Without a pause, since the CLI has already tried again.
        raise ModelBusy(str(failure)) if isinstance(failure, ModelBusy) else failure

    def _take_stream_event(self, event: Mapping[str, Any]) -> Iterator[str | Thought | Restart]:
        event_type = event.get("type")
        delta = as_mapping(event.get("delta"))
        if event_type == "message_start":
            yield from self._begin_message(as_mapping(event.get("message")))
        elif event_type == "content_block_delta" and delta.get("type") == "text_delta":
            text = str(delta.get("text", ""))
            self._streamed_pieces.append(text)
            yield text
        elif event_type == "content_block_delta" and delta.get("type") == "thinking_delta":
            yield Thought(str(delta.get("thinking", "")))
        elif event_type == "message_delta":
            reason = delta.get("stop_reason")
            self.stop_reason = reason or self.stop_reason
            self._cut = reason == "max_tokens"
            self._message_usage |= _count_tokens(event.get("usage"))
            if reason != "refusal":
                self._finished_pieces = len(self._streamed_pieces)
                self._finished_texts = len(self._texts)

    def _begin_message(self, message: Mapping[str, Any]) -> Iterator[Restart]:
        """The last message counts only if it ended normally: the CLI repeats a broken stream and
        replaces a refused message."""
        self._streamed_usage += self._message_usage
        self._message_usage = _count_tokens(message.get("usage"))
        del self._texts[self._finished_texts :]
        broken_pieces = self._streamed_pieces[self._finished_pieces :]
        del self._streamed_pieces[self._finished_pieces :]
        if any(broken_pieces):
            self.has_restarted = True
            yield Restart(self.streamed)

    def _take_message(self, event: Mapping[str, Any]) -> None:
        message = as_mapping(event.get("message"))
        content = message.get("content")
        blocks = map(as_mapping, content if isinstance(content, list) else [])
        texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
        text = "".join(texts)
        if message.get("model") == _SYNTHETIC:
            self._error_text = text
            self._error_type = str(event.get("error") or "")
            return
        self.model = str(message.get("model") or self.model)
        if text:
            # After the token limit the CLI continues in the middle of a sentence.
            if self._texts and not self._cut:
                self._texts.append("\n\n")
            self._texts.append(text)

    def _take_system_event(self, event: Mapping[str, Any]) -> Iterator[ClaudeNotice]:
        subtype = event.get("subtype")
        if subtype == "init":
            self.key_source = str(event.get("apiKeySource") or "")
            self.model = str(event.get("model") or self.model)
        elif subtype == "api_retry":
            status = event.get("error_status")
            status = status if isinstance(status, int) else 0
            reason = BUSY_STATUSES.get(status, "The connection failed")
            seconds = float(event.get("retry_delay_ms") or 0) / 1000
            attempt = f"{event.get('attempt')} of {event.get('max_retries')}"
            yield ClaudeNotice("warning", f"{reason}; trying again ({attempt}) in {seconds:.0f} s.")
        elif subtype == "informational":
            level = "warning" if event.get("level") == "warning" else "info"
            yield ClaudeNotice(level, f"claude: {event.get('content')}")
        elif subtype == "compact_boundary":
            yield ClaudeNotice("warning", _COMPACTED)

    def _finish(self, event: Mapping[str, Any]) -> None:
        self.ended = True
        self._result = event
        usage_by_model = as_mapping(event.get("modelUsage"))
        model_usages = [as_mapping(model_usage) for model_usage in usage_by_model.values()]
        windows = [model_usage.get("contextWindow") for model_usage in model_usages]
        known_windows = [window for window in windows if isinstance(window, int)]
        self.window = max(known_windows, default=0) or None
        usage = self._totals_before.usage | sum(map(_count_tokens, model_usages), Counter[str]())
        self.spent = ProcessTotals(float(event.get("total_cost_usd") or self.spent.cost), usage)
        self.stop_reason = event.get("stop_reason") or self.stop_reason


def _limit_notice(info: Mapping[str, Any]) -> Iterator[ClaudeNotice]:
    """Yield a notice if a limit of the account is reached, or nearly."""
    limit_name = " ".join(str(info.get("rateLimitType") or "").split("_"))
    state = _LIMITS.get(str(info.get("status")), "")
    if info.get("isUsingOverage") is True:
        limit_name = limit_name or "usage"
        state = "is used up; answers are now billed as extra usage"
    if not state or not limit_name:  # not a limit of the account; the CLI says what it is
        return

    reset = ""
    with contextlib.suppress(OverflowError, OSError, ValueError, TypeError):
        reset_time = datetime.fromtimestamp(info.get("resetsAt"))  # type: ignore[arg-type]
        reset = f" It resets on {reset_time:%A at %H:%M}."
    text = f"The {limit_name} limit of the account {state}.{reset}"
    yield ClaudeNotice("warning", text, once_key=text)


def _count_tokens(usage: object) -> Counter[str]:
    """Return the counts of a usage, by the service's names."""
    counts = Counter[str]()
    for name, count in as_mapping(usage).items():
        service_name = _COUNTS.get(name, name)
        if service_name in _COUNTS.values() and isinstance(count, int):
            counts[service_name] = count
    return counts


# How the process reaches its service


def login_environment(*, use_api_key: bool) -> dict[str, str]:
    """Return the variables with which `claude` finds its login."""
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
    """Return whether the user has set a gateway for `claude`, in its settings or the environment."""
    if os.environ.get(_GATEWAY):
        return True
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    try:
        address = json.loads(Path(folder, "settings.json").read_bytes())["env"][_GATEWAY]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False
    return isinstance(address, str) and bool(address)


def login_status(executable: str, *, use_api_key: bool) -> Mapping[str, Any]:
    """Return what `claude auth status` says; empty if it says nothing."""
    try:
        answer = subprocess.run(
            [executable, *USER_SETTINGS, "auth", "status"],
            env=login_environment(use_api_key=use_api_key),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOGIN_STATUS_TIMEOUT_S,
            check=False,
        )
        return as_mapping(json.loads(answer.stdout))
    except (OSError, subprocess.TimeoutExpired, ValueError, RecursionError):
        return {}


def _is_withheld(use_api_key: bool) -> bool:
    """Return whether the key is kept from `claude`. A gateway gets it, since otherwise the login
    would be sent there."""
    return bool(os.environ.get(KEY)) and not use_api_key and not has_gateway()


# The process


def environment(max_tokens: int | None = None, *, use_api_key: bool = False) -> dict[str, str]:
    """Return the variables of a process.

    Args:
        max_tokens: the most of one message; None: as the user has set it, otherwise the model's
            limit.
        use_api_key: whether the key of the environment may be billed.
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
    """Return the command line: text only, no tools, nothing read from the folder; prompts come on
    stdin."""
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
