"""Folds the events that version 2.1 of `claude` prints in a turn."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mahtab_tui.llm.answer_metadata import REFUSED
from mahtab_tui.llm.base import ModelBusy, ModelError, ServiceError, as_mapping
from mahtab_tui.llm.failures import BUSY_STATUSES, explain_error

_SYNTHETIC = "<synthetic>"
"""The model of messages that the CLI itself has written, such as errors."""
_LOG_IN = "The login of `claude` was not accepted. Run `claude`, then /login in it. {hint}"
_WRONG_TOOL = "The model tried again and again to use a tool that it does not have here. Ask again in other words."
_STATES_BY_LIMIT_STATUS = {"rejected": "is reached", "allowed_warning": "is nearly reached"}
_SERVICE_NAMES_OF_COUNTS = {
    "inputTokens": "input_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheCreationInputTokens": "cache_creation_input_tokens",
    "outputTokens": "output_tokens",
}
_COMPACTED = "`claude` has replaced the beginning of this conversation with its own summary, so the model may have forgotten details."


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


class ClaudeThought(NamedTuple):
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
            totals_before: What the process had used before.
            login_hint: Advice if the login is not accepted.
        """
        self.has_restarted = False
        """Whether the answer has started again."""
        self.ended = False
        self.model = ""
        """The service's name for the model."""
        self.stop_reason: str | None = None
        """Why the answer ended, in the service's words."""
        self.spent = totals_before
        """What the process has used, with this turn once it has ended."""
        self.key_source = ""
        """Where the CLI has its key from."""
        self.window: int | None = None
        """Tokens that the model can read; None until the turn has ended."""
        self._totals_before = totals_before
        self._login_hint = login_hint
        self._texts: list[str] = []
        self._streamed_pieces: list[str] = []
        self._finished_pieces = 0
        """How many of `_streamed_pieces` come from messages that ended normally."""
        self._finished_texts = 0
        """How many of `_texts` do."""
        self._cut = False
        """Whether the last message reached the token limit."""
        self._error_text = ""
        self._error_type = ""
        """What the CLI calls the error, such as ``authentication_failed``."""
        self._result: Mapping[str, Any] = {}
        self._streamed_usage = Counter[str]()
        self._message_usage = Counter[str]()

    @property
    def cost(self) -> float:
        """US dollars for this turn."""
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
        """The answer: its whole messages, or what was streamed if there are none."""
        return "".join(self._texts) or self.streamed

    def fold(
        self, event: Mapping[str, Any]
    ) -> Iterator[str | ClaudeThought | Restart | ClaudeNotice]:
        """Take an event, and yield what is new in the answer."""
        match event.get("type"):
            case "stream_event":
                yield from self._take_stream_event(as_mapping(event.get("event")))
            case "assistant":
                self._take_message(event)
            case "system":
                yield from self._take_system_event(event)
            case "rate_limit_event":
                yield from _limit_notice(as_mapping(event.get("rate_limit_info")))
            case "result":
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

    def _take_stream_event(
        self, event: Mapping[str, Any]
    ) -> Iterator[str | ClaudeThought | Restart]:
        delta = as_mapping(event.get("delta"))
        match event.get("type"), delta.get("type"):
            case "message_start", _:
                yield from self._begin_message(as_mapping(event.get("message")))
            case "content_block_delta", "text_delta":
                text = str(delta.get("text", ""))
                self._streamed_pieces.append(text)
                yield text
            case "content_block_delta", "thinking_delta":
                yield ClaudeThought(str(delta.get("thinking", "")))
            case "message_delta", _:
                self._message_usage |= _count_tokens(event.get("usage"))
                self._end_message(delta.get("stop_reason"))

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

    def _end_message(self, reason: str | None) -> None:
        """Note why a streamed message has ended. A refused one may be replaced by the next."""
        self.stop_reason = reason or self.stop_reason
        self._cut = reason == "max_tokens"
        if reason != "refusal":
            self._finished_pieces = len(self._streamed_pieces)
            self._finished_texts = len(self._texts)

    def _take_message(self, event: Mapping[str, Any]) -> None:
        """Take a whole message."""
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
    state = _STATES_BY_LIMIT_STATUS.get(str(info.get("status")), "")
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
        service_name = _SERVICE_NAMES_OF_COUNTS.get(name, name)
        is_count = service_name in _SERVICE_NAMES_OF_COUNTS.values()
        if is_count and isinstance(count, int):
            counts[service_name] = count
    return counts
