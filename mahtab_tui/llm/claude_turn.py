"""Reads the events that `claude` (2.1) prints while it answers, and folds them to an answer.

The CLI prints an answer twice: as a stream of pieces, and as whole messages. A message comes so:

    stream_event  message_start         the message begins
    stream_event  content_block_delta   a piece of its text; many of these
    assistant                           its whole text; its thoughts come in another one
    stream_event  message_delta         why the message has ended, and its usage

An answer may consist of several messages. If a stream breaks off, its message does not end, and the CLI
asks again: a new `message_start` comes, or only the whole message of the new answer. A message that was
refused ends, and another one may replace it. So what was streamed may be withdrawn.
"""

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
_ONLY_WRONG_TOOLS = "The model tried again and again to use a tool that it does not have here. Ask again in other words."
_STATES_BY_LIMIT_STATUS = {"rejected": "is reached", "allowed_warning": "is nearly reached"}
"""What is said about a limit of the account, by its status. Nothing is said about others."""
_SERVICE_NAMES_OF_COUNTS = {
    "inputTokens": "input_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheCreationInputTokens": "cache_creation_input_tokens",
    "outputTokens": "output_tokens",
}
"""The service's names for numbers of tokens, by those of the CLI."""
_COMPACTED = "`claude` has replaced the beginning of this conversation with its own summary, so the model may have forgotten details."


class ClaudeNotice(NamedTuple):
    """A sentence for the user."""

    level: str
    """``info`` or ``warning``."""
    text: str
    once_key: str = ""
    """If it is not empty, a notice with this key is shown only once."""


class Restart(NamedTuple):
    """A part of the answer is withdrawn."""

    text: str
    """The answer that remains, and that goes on."""


class ClaudeThought(NamedTuple):
    """A piece of the model's thinking."""

    text: str


class ProcessTotals(NamedTuple):
    """What a process has used in all its turns."""

    cost: float
    """In US dollars."""
    usage: Counter[str]
    """Numbers of tokens, by the service's names. `input_tokens` are those that were not in the cache.
    Nobody changes this counter: each sum is a new one, so turns may share it."""


NOTHING_SPENT = ProcessTotals(0.0, Counter())


class ClaudeTurn:
    """Folds the events of one turn: a question and its answer. Unknown events are ignored."""

    def __init__(self, totals_before: ProcessTotals = NOTHING_SPENT, login_hint: str = "") -> None:
        """Begin a turn of a process.

        Args:
            totals_before: What the process had used before the turn.
            login_hint: A sentence of advice, shown if the login is not accepted.
        """
        self.has_restarted = False
        """Whether a part of the answer was withdrawn."""
        self.ended = False
        """Whether the turn has ended."""
        self.model = ""
        """The service's name for the model."""
        self.stop_reason: str | None = None
        """Why the answer ended, in the service's words."""
        self.spent = totals_before
        """What the process has used. Until the turn has ended, this is what it had used before."""
        self.key_source = ""
        """Where the CLI has found its key, in its own words."""
        self.window: int | None = None
        """How many tokens the model can read; None until the turn has ended."""
        self._totals_before = totals_before
        self._login_hint = login_hint
        self._texts: list[str] = []
        """The texts of whole messages, and the empty lines between them."""
        self._finished_text_count = 0
        """How many of these texts belong to messages that ended normally."""
        self._streamed_pieces: list[str] = []
        """The pieces of the streamed messages."""
        self._finished_piece_count = 0
        """How many of these pieces belong to messages that ended normally."""
        self._is_message_cut = False
        """Whether the message that ended last has reached the limit of tokens."""
        self._error_text = ""
        """What the CLI says of an error."""
        self._error_type = ""
        """What the CLI calls the error, such as ``authentication_failed``."""
        self._result: Mapping[str, Any] = {}
        """The event with which the turn has ended."""
        self._streamed_usage = Counter[str]()
        """What the streamed messages before the last one have used."""
        self._message_usage = Counter[str]()
        """What the last streamed message has used."""

    @property
    def cost(self) -> float:
        """What this turn has cost, in US dollars; 0 until it has ended."""
        return max(0.0, self.spent.cost - self._totals_before.cost)

    @property
    def usage(self) -> Counter[str]:
        """The numbers of tokens that this turn has used.

        Neither source has all calls: the event that ends a turn leaves out those that broke off, and
        the stream leaves out the CLI's own. So for each kind of tokens, the greater number counts.
        """
        result_usage = self.spent.usage - self._totals_before.usage
        streamed_usage = self._streamed_usage + self._message_usage
        return result_usage | streamed_usage

    @property
    def streamed(self) -> str:
        """The answer as it was streamed, without what was withdrawn."""
        return "".join(self._streamed_pieces)

    @property
    def text(self) -> str:
        """The answer: the whole messages, or if there are none, what was streamed."""
        return "".join(self._texts) or self.streamed

    def fold(
        self, event: Mapping[str, Any]
    ) -> Iterator[str | ClaudeThought | Restart | ClaudeNotice]:
        """Take an event, and yield what it means for the user: a piece of the answer is a string."""
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
        """Raise an error if the turn has failed.

        Raises:
            ModelError: It has failed. The message is for the user.
        """
        result = self._result
        if not result.get("is_error") or result.get("terminal_reason") == "aborted_streaming":
            return
        if result.get("subtype") == "error_max_turns":
            raise ModelError(_ONLY_WRONG_TOOLS)
        if result.get("stop_reason") == "refusal":
            raise ModelError(REFUSED)

        message = self._error_text or str(result.get("result") or result.get("errors") or "")
        status = result.get("api_error_status")
        if status:
            is_login_refused = status == 401
        else:
            # The CLI has found no login, and did not ask the service.
            is_login_refused = self._error_type == "authentication_failed"
        if is_login_refused:
            raise ModelError(_LOG_IN.format(hint=self._login_hint).strip())
        body = {"message": message, "type": self._error_type}
        failure = explain_error(ServiceError(body, status))
        if isinstance(failure, ModelBusy):
            # The CLI has already tried again, so nobody should wait for that.
            raise ModelBusy(str(failure))
        raise failure

    def _take_stream_event(
        self, event: Mapping[str, Any]
    ) -> Iterator[str | ClaudeThought | Restart]:
        """Take an event of the stream, and yield the pieces of the answer, and what is withdrawn."""
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
        """Begin a streamed message, and withdraw the last one if it did not end normally."""
        self._streamed_usage += self._message_usage
        self._message_usage = _count_tokens(message.get("usage"))
        del self._texts[self._finished_text_count :]
        broken_pieces = self._streamed_pieces[self._finished_piece_count :]
        del self._streamed_pieces[self._finished_piece_count :]
        if any(broken_pieces):
            self.has_restarted = True
            yield Restart(self.streamed)

    def _end_message(self, reason: str | None) -> None:
        """Note why a streamed message has ended, whose whole message has come before.

        A message that was refused does not count as finished, because the next one may replace it.

        Args:
            reason: The reason, in the service's words; None if the answer was interrupted.
        """
        self.stop_reason = reason or self.stop_reason
        self._is_message_cut = reason == "max_tokens"
        if reason != "refusal":
            self._finished_piece_count = len(self._streamed_pieces)
            self._finished_text_count = len(self._texts)

    def _take_message(self, event: Mapping[str, Any]) -> None:
        """Take a whole message. If it was streamed, its end comes later."""
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
            # After a message that has reached the limit of tokens, the next one continues its sentence.
            if self._texts and not self._is_message_cut:
                self._texts.append("\n\n")
            self._texts.append(text)

    def _take_system_event(self, event: Mapping[str, Any]) -> Iterator[ClaudeNotice]:
        """Take what the CLI tells of itself, and yield notices for the user."""
        subtype = event.get("subtype")
        if subtype == "init":
            self.key_source = str(event.get("apiKeySource") or "")
            self.model = str(event.get("model") or self.model)
        elif subtype == "api_retry":
            status = event.get("error_status")
            reason = "The connection failed"
            if isinstance(status, int):
                reason = BUSY_STATUSES.get(status, reason)
            seconds = float(event.get("retry_delay_ms") or 0) / 1000
            attempt = f"{event.get('attempt')} of {event.get('max_retries')}"
            yield ClaudeNotice("warning", f"{reason}; trying again ({attempt}) in {seconds:.0f} s.")
        elif subtype == "informational":
            level = "warning" if event.get("level") == "warning" else "info"
            yield ClaudeNotice(level, f"claude: {event.get('content')}")
        elif subtype == "compact_boundary":
            yield ClaudeNotice("warning", _COMPACTED)

    def _finish(self, event: Mapping[str, Any]) -> None:
        """Take the event with which a turn ends. It has the totals of the whole process."""
        self.ended = True
        self._result = event
        usage_by_model = as_mapping(event.get("modelUsage"))
        model_usages = [as_mapping(model_usage) for model_usage in usage_by_model.values()]
        windows = [model_usage.get("contextWindow") for model_usage in model_usages]
        known_windows = [window for window in windows if isinstance(window, int)]
        self.window = max(known_windows, default=0) or None

        process_usage = Counter[str]()
        for model_usage in model_usages:
            process_usage += _count_tokens(model_usage)
        # After a failure the event may lack these totals, which never fall: the greater ones hold.
        usage = self._totals_before.usage | process_usage
        cost = float(event.get("total_cost_usd") or self.spent.cost)
        self.spent = ProcessTotals(cost, usage)
        self.stop_reason = event.get("stop_reason") or self.stop_reason


def _limit_notice(info: Mapping[str, Any]) -> Iterator[ClaudeNotice]:
    """Yield a notice if a limit of the account is reached, or nearly.

    Args:
        info: What the CLI says about the limit.
    """
    limit_name = " ".join(str(info.get("rateLimitType") or "").split("_"))
    state = _STATES_BY_LIMIT_STATUS.get(str(info.get("status")), "")
    if info.get("isUsingOverage") is True:
        limit_name = limit_name or "usage"
        state = "is used up; answers are now billed as extra usage"
    if not state or not limit_name:
        # It is not a limit of the account, and the CLI itself says what it is.
        return

    reset = ""
    with contextlib.suppress(OverflowError, OSError, ValueError, TypeError):
        reset_time = datetime.fromtimestamp(info.get("resetsAt"))  # type: ignore[arg-type]
        reset = f" It resets on {reset_time:%A at %H:%M}."
    text = f"The {limit_name} limit of the account {state}.{reset}"
    yield ClaudeNotice("warning", text, once_key=text)


def _count_tokens(usage: object) -> Counter[str]:
    """Return the numbers of tokens in a usage, by the service's names.

    Args:
        usage: Numbers by the names of the service or of the CLI.
    """
    counts = Counter[str]()
    for name, count in as_mapping(usage).items():
        service_name = _SERVICE_NAMES_OF_COUNTS.get(name, name)
        is_count = service_name in _SERVICE_NAMES_OF_COUNTS.values()
        if is_count and isinstance(count, int):
            counts[service_name] = count
    return counts
