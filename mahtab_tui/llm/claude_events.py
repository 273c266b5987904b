"""What the `claude` CLI prints in a turn, and what it comes to. The shapes are those of version 2.1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mahtab_tui.llm.base import ModelBusy, ModelError

SYNTHETIC = "<synthetic>"
"""The model's name in messages that the CLI itself has written: errors, never answers."""

_BY_STATUS = {
    401: "The login or key of `claude` is not accepted. Run `claude`, then /login in it. {hint}",
    403: "This account may not use the model: {said}",
    429: "The service's limit for this account is reached: {said}",
    500: "The service failed: {said} Ask again in a moment.",
    529: "The service is overloaded. Ask again in a moment.",
}
_BUSY = (429, 500, 529)
_BY_KIND = {
    "authentication_failed": "Nobody is logged in to `claude`. Run `claude`, then /login in it. {hint}",
    "billing_error": "The account cannot pay for the answer: {said}",
    "model_not_found": "The model is not there, or not for this account: {said}",
}
_REASONS = {
    "overloaded": "The service is overloaded",
    "rate_limit": "The service's limit is reached",
    "authentication_failed": "The login was not accepted",
}


class Notice(NamedTuple):
    """Something that the person should know."""

    level: str
    text: str


class Usage(NamedTuple):
    """Tokens of a turn."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cache_creation: int = 0


class Turn:
    """Folds the events of one turn. Key order and unknown events do not matter."""

    def __init__(self, cost_before: float = 0.0, login_hint: str = "") -> None:
        """cost_before: US dollars since the process began. login_hint: what to say as well where the login is not accepted."""
        self.streamed = ""
        self.ended = False
        self.usage = Usage()
        self.model = ""
        self.stop_reason: str | None = None
        self.total_cost = cost_before
        """US dollars since the process began."""
        self.key_source = ""
        self._cost_before = cost_before
        self._login_hint = login_hint
        self._whole: list[str] = []
        self._cut = False
        self._error: tuple[str, str] | None = None
        self._result: Mapping[str, Any] = {}
        self._counted = Usage()

    @property
    def cost(self) -> float:
        """US dollars of this turn."""
        return max(0.0, self.total_cost - self._cost_before)

    @property
    def text(self) -> str:
        """The answer: what the whole messages say, else what was streamed."""
        return "".join(self._whole) or self.streamed

    def fold(self, event: Mapping[str, Any]) -> Iterator[str | Notice]:
        """Take in an event; gives words as they come, and what the person should know."""
        kind = event.get("type")
        if kind == "stream_event":
            yield from self._stream(_mapping(event.get("event")))
        elif kind == "assistant":
            self._assistant(event)
        elif kind == "system":
            yield from self._system(event)
        elif kind == "result":
            self._finish(event)

    def check(self) -> None:
        """Raises `ModelError` where the turn ended in an error."""
        result = self._result
        interrupted = result.get("terminal_reason") == "aborted_streaming"
        if not result.get("is_error") or interrupted:
            return
        if result.get("subtype") == "error_max_turns":
            raise ModelError("The model wanted to use a tool of its own, which it does not have here. Ask again in other words.")
        said = self._error[0] if self._error else str(result.get("result") or "; ".join(map(str, result.get("errors") or ())))
        kind = self._error[1] if self._error else ""
        status = result.get("api_error_status")
        sentence = _BY_STATUS.get(status or 0) or _BY_KIND.get(kind) or "The model could not answer: {said}"
        failure = ModelBusy if status in _BUSY else ModelError
        raise failure(sentence.format(said=said.strip(), hint=self._login_hint).strip())

    def _stream(self, event: Mapping[str, Any]) -> Iterator[str]:
        kind, delta = event.get("type"), _mapping(event.get("delta"))
        if kind == "content_block_delta" and delta.get("type") == "text_delta":
            text = str(delta.get("text", ""))
            self.streamed += text
            yield text
        elif kind == "message_delta":
            self.stop_reason = delta.get("stop_reason") or self.stop_reason
            self._cut = delta.get("stop_reason") == "max_tokens"
            counted, given = self._counted, _usage(_mapping(event.get("usage")))
            self._counted = Usage(*(before + more for before, more in zip(counted, given, strict=True)))

    def _assistant(self, event: Mapping[str, Any]) -> None:
        message = _mapping(event.get("message"))
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        text = "".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict) and block.get("type") == "text")
        if message.get("model") == SYNTHETIC:
            self._error = (text, str(event.get("error") or ""))
            return
        self.model = str(message.get("model") or self.model)
        if text:
            # After the token limit the CLI goes on by itself, in the middle of a sentence.
            if self._whole and not self._cut:
                self._whole.append("\n\n")
            self._whole.append(text)

    def _system(self, event: Mapping[str, Any]) -> Iterator[Notice]:
        if event.get("subtype") == "init":
            self.key_source = str(event.get("apiKeySource") or "")
            self.model = str(event.get("model") or self.model)
        elif event.get("subtype") == "api_retry":
            reason = _REASONS.get(str(event.get("error")), "The connection failed")
            seconds = float(event.get("retry_delay_ms") or 0) / 1000
            tries = f"{event.get('attempt')} of {event.get('max_retries')}"
            yield Notice("warning", f"{reason}; trying again ({tries}) in {seconds:.0f} s.")

    def _finish(self, event: Mapping[str, Any]) -> None:
        self.ended = True
        self._result = event
        self.total_cost = float(event.get("total_cost_usd") or self.total_cost)
        self.stop_reason = event.get("stop_reason") or self.stop_reason
        # After an interrupt the result counts nothing; what was streamed has been counted.
        told = _usage(_mapping(event.get("usage")))
        self.usage = told if any(told) else self._counted


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _usage(usage: Mapping[str, Any]) -> Usage:
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Usage(*(int(usage.get(name) or 0) for name in names))
