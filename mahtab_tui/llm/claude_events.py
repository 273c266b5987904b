"""Reads the events that the `claude` CLI prints in a turn, as version 2.1 formats them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mahtab_tui.llm.base import ContextTooLong, ModelBusy, ModelError
from mahtab_tui.llm.failures import BUSY_STATUSES
from mahtab_tui.llm.messages import REFUSED

SYNTHETIC = "<synthetic>"
"""The model's name in messages by the CLI itself, which are errors."""

_BY_STATUS = {
    401: "The login or key of `claude` was not accepted. Run `claude`, then /login in it. {hint}",
    402: "The account cannot pay for the answer: {said}",
    403: "This account may not use the model: {said}",
    **{
        status: f"{words}: {{said}} Ask again in a moment."
        for status, words in BUSY_STATUSES.items()
    },
    429: f"{BUSY_STATUSES[429]}: {{said}}",
    529: f"{BUSY_STATUSES[529]}. Ask again in a moment.",
}
_BY_KIND = {
    "authentication_failed": "You are not logged in to `claude`. Run `claude`, then /login in it. {hint}",
    "billing_error": "The account cannot pay for the answer: {said}",
    "model_not_found": "The model does not exist or is not available to this account: {said}",
}
_REASONS = {
    "overloaded": BUSY_STATUSES[529],
    "rate_limit": BUSY_STATUSES[429],
    "server_error": BUSY_STATUSES[500],
    "authentication_failed": "The login was not accepted",
}
_LIMITS = {
    "five_hour": "five-hour",
    "seven_day": "weekly",
    "seven_day_opus": "weekly Opus",
    "seven_day_sonnet": "weekly Sonnet",
}
_COUNTS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)
_COUNTS_OF_MODELS = (
    "inputTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
    "outputTokens",
)
_COMPACTED = "`claude` has replaced the beginning of this conversation with its own summary, so the model may have forgotten details."


class ClaudeNotice(NamedTuple):
    """A message for the user."""

    level: str
    text: str
    once: str = ""
    """A key for messages that are shown only once; empty for others."""


class Restart(NamedTuple):
    """The answer starts again; what was streamed no longer counts."""

    text: str
    """The part of it that is kept."""


class Thought(NamedTuple):
    """A piece of what the model thinks before it answers."""

    text: str


class TokenCounts(NamedTuple):
    new: int = 0
    """Read, but neither from the cache nor written to it."""
    cache_read: int = 0
    cache_creation: int = 0
    output: int = 0

    @property
    def input(self) -> int:
        """All tokens read."""
        return self.new + self.cache_read + self.cache_creation


class ProcessTotals(NamedTuple):
    """Usage of a process since its start."""

    cost: float = 0.0
    """US dollars."""
    usage: TokenCounts = TokenCounts()


NOTHING_SPENT = ProcessTotals()


class ClaudeTurn:
    """Folds the events of one turn; unknown events are ignored."""

    def __init__(self, before: ProcessTotals = NOTHING_SPENT, login_hint: str = "") -> None:
        """before: what the process had used before the turn. login_hint: added to the message if
        the login is not accepted."""
        self.streamed = ""
        """Streamed text that still counts."""
        self.began_anew = False
        """Whether some of what was streamed no longer counts."""
        self.ended = False
        self.model = ""
        self.stop_reason: str | None = None
        self.spent = before
        """Return the usage of the process, this turn included as far as it is known."""
        self.key_source = ""
        self.window: int | None = None
        """The tokens that the model can read, once the CLI has told."""
        self._before = before
        self._login_hint = login_hint
        self._whole: list[str] = []
        self._standing = (0, 0)
        """How much of `streamed` and of `_whole` comes from messages that ended normally."""
        self._cut = False
        self._error: tuple[str, str] | None = None
        self._result: Mapping[str, Any] = {}
        self._streamed_usage = TokenCounts()
        """For the messages that have ended."""
        self._message_usage = TokenCounts()
        """For the message that is being streamed."""

    @property
    def cost(self) -> float:
        """US dollars of this turn."""
        return max(0.0, self.spent.cost - self._before.cost)

    @property
    def usage(self) -> TokenCounts:
        """Tokens of this turn.

        The CLI reports them in three places, of which each is incomplete, so the greatest count is
        taken:

        modelUsage of the result    lacks calls that broke off
        usage of the result         lacks the CLI's own calls, and everything after an interrupt
        stream events               lack what was not streamed
        """
        sums = TokenCounts(
            *(now - then for now, then in zip(self.spent.usage, self._before.usage, strict=True))
        )
        usage = _usage(self._result.get("usage"))
        streamed = _each(sum, self._streamed_usage, self._message_usage)
        return _each(max, sums, usage, streamed)

    @property
    def text(self) -> str:
        """The answer: the complete messages, or what was streamed."""
        return "".join(self._whole) or self.streamed

    def fold(self, event: Mapping[str, Any]) -> Iterator[str | Thought | Restart | ClaudeNotice]:
        """Fold an event; yields words and thoughts as they come, restarts, and messages for the
        user."""
        kind = event.get("type")
        if kind == "stream_event":
            yield from self._stream(_mapping(event.get("event")))
        elif kind == "assistant":
            self._assistant(event)
        elif kind == "system":
            yield from self._system(event)
        elif kind == "rate_limit_event":
            yield from _limit_notices(_mapping(event.get("rate_limit_info")))
        elif kind == "result":
            self._finish(event)

    def check(self) -> None:
        """Raise `ModelError` if the turn ended in an error."""
        result = self._result
        interrupted = result.get("terminal_reason") == "aborted_streaming"
        if not result.get("is_error") or interrupted:
            return
        if result.get("subtype") == "error_max_turns":
            raise ModelError(
                "The model tried again and again to use a tool that it does not have here. Ask again in other words."
            )
        reason = (
            self._error[0]
            if self._error
            else str(result.get("result") or "; ".join(map(str, result.get("errors") or ())))
        )
        kind = self._error[1] if self._error else ""
        if (
            result.get("terminal_reason") == "prompt_too_long"
            or "prompt is too long" in reason.lower()
        ):
            raise ContextTooLong("The conversation is too long for the model.")
        if result.get("stop_reason") == "refusal":
            raise ModelError(REFUSED)
        status = result.get("api_error_status")
        sentence = (
            _BY_STATUS.get(status or 0)
            or _BY_KIND.get(kind)
            or "The model could not answer: {said}"
        )
        failure = ModelBusy if status in BUSY_STATUSES else ModelError
        raise failure(sentence.format(said=reason.strip(), hint=self._login_hint).strip())

    def _stream(self, event: Mapping[str, Any]) -> Iterator[str | Thought | Restart]:
        kind, delta = event.get("type"), _mapping(event.get("delta"))
        if kind == "message_start":
            yield from self._begin_message(_mapping(event.get("message")))
        elif kind == "content_block_delta" and delta.get("type") == "text_delta":
            text = str(delta.get("text", ""))
            self.streamed += text
            yield text
        elif kind == "content_block_delta" and delta.get("type") == "thinking_delta":
            yield Thought(str(delta.get("thinking", "")))
        elif kind == "message_delta":
            self.stop_reason = delta.get("stop_reason") or self.stop_reason
            self._cut = delta.get("stop_reason") == "max_tokens"
            self._message_usage = _each(max, self._message_usage, _usage(event.get("usage")))
            if delta.get("stop_reason") != "refusal":
                self._standing = (len(self.streamed), len(self._whole))

    def _begin_message(self, message: Mapping[str, Any]) -> Iterator[Restart]:
        """Start the turn's next message. The last one counts only if it ended normally: the CLI
        repeats a broken stream and replaces a refused message."""
        self._streamed_usage = _each(sum, self._streamed_usage, self._message_usage)
        self._message_usage = _usage(message.get("usage"))
        streamed, whole = self._standing
        del self._whole[whole:]
        if len(self.streamed) > streamed:
            self.streamed = self.streamed[:streamed]
            self.began_anew = True
            yield Restart(self.streamed)

    def _assistant(self, event: Mapping[str, Any]) -> None:
        message = _mapping(event.get("message"))
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        text = "".join(
            str(block.get("text", ""))
            for block in blocks
            if isinstance(block, dict) and block.get("type") == "text"
        )
        if message.get("model") == SYNTHETIC:
            self._error = (text, str(event.get("error") or ""))
            return
        self.model = str(message.get("model") or self.model)
        if text:
            # After the token limit the CLI continues in the middle of a sentence.
            if self._whole and not self._cut:
                self._whole.append("\n\n")
            self._whole.append(text)

    def _system(self, event: Mapping[str, Any]) -> Iterator[ClaudeNotice]:
        if event.get("subtype") == "init":
            self.key_source = str(event.get("apiKeySource") or "")
            self.model = str(event.get("model") or self.model)
        elif event.get("subtype") == "api_retry":
            status = event.get("error_status")
            reason = BUSY_STATUSES.get(status) if isinstance(status, int) else None
            reason = reason or _REASONS.get(str(event.get("error"))) or "The connection failed"
            seconds = float(event.get("retry_delay_ms") or 0) / 1000
            tries = f"{event.get('attempt')} of {event.get('max_retries')}"
            yield ClaudeNotice("warning", f"{reason}; trying again ({tries}) in {seconds:.0f} s.")
        elif event.get("subtype") == "informational":
            yield ClaudeNotice(
                "warning" if event.get("level") == "warning" else "info",
                f"claude: {event.get('content')}",
            )
        elif event.get("subtype") == "compact_boundary":
            yield ClaudeNotice("warning", _COMPACTED)

    def _finish(self, event: Mapping[str, Any]) -> None:
        self.ended = True
        self._result = event
        used_by = _mapping(event.get("modelUsage"))
        self.window = _window(used_by, self.model)
        sums = [_usage(used, _COUNTS_OF_MODELS) for used in used_by.values()]
        usage = _each(max, self._before.usage, _each(sum, *sums)) if sums else self._before.usage
        self.spent = ProcessTotals(float(event.get("total_cost_usd") or self.spent.cost), usage)
        self.stop_reason = event.get("stop_reason") or self.stop_reason


def _limit_notices(info: Mapping[str, Any]) -> Iterator[ClaudeNotice]:
    """Yield a message if one of the account's limits is reached or nearly reached."""
    status, kind, until = (
        info.get("status"),
        str(info.get("rateLimitType") or ""),
        _day_and_time(info.get("resetsAt")),
    )
    limit = (
        f"The {_LIMITS[kind]} limit of the account"
        if kind in _LIMITS
        else "The limit of the account"
    )
    again = f" It resets {until}." if until else ""
    extra = bool(info.get("isUsingOverage"))
    if not (kind or until or extra):
        return  # not one of the account's; the CLI says itself what is the matter
    once = f"limit {status} {kind} {until} {extra}"
    if extra:
        yield ClaudeNotice(
            "warning", f"{limit} is used up; answers are now billed as extra usage.{again}", once
        )
    elif status == "rejected":
        yield ClaudeNotice("warning", f"{limit} is reached.{again}", once)
    elif status == "allowed_warning":
        used = info.get("utilization")
        share = f": {used:.0%} of it is used" if isinstance(used, float) and 0 <= used <= 1 else ""
        yield ClaudeNotice("warning", f"{limit} is nearly reached{share}.{again}", once)


def _day_and_time(seconds: object) -> str:
    """Format a time, given in seconds since 1970, for the user; empty if invalid."""
    if not isinstance(seconds, int):
        return ""
    try:
        return datetime.fromtimestamp(seconds).strftime("on %A at %H:%M")
    except (OverflowError, OSError, ValueError):
        return ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _window(used_by: Mapping[str, Any], model: str) -> int | None:
    """Return the context window of the model that answered; others have only helped the CLI. Its
    name there may end with "[1m]"."""
    sizes = {name: _mapping(used).get("contextWindow") for name, used in used_by.items()}
    size = sizes.get(model) or next(
        (size for name, size in sizes.items() if name.partition("[")[0] == model.partition("[")[0]),
        None,
    )
    return size if isinstance(size, int) and size > 0 else None


def _usage(usage: Any, names: Sequence[str] = _COUNTS) -> TokenCounts:
    """Read the counts of a message or a result."""
    counts = (_mapping(usage).get(name) for name in names)
    return TokenCounts(*(count if isinstance(count, int) else 0 for count in counts))


def _each(fold: Callable[[Iterable[int]], int], *usages: TokenCounts) -> TokenCounts:
    """Combine counts field by field."""
    return TokenCounts(*(fold(counts) for counts in zip(*usages, strict=True)))
