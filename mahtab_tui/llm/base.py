"""Errors of models, failures of services as sentences, and helpers for their messages."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


MAX_PAUSE_S = 1e6
"""A service that asks to wait longer is said to ask for this."""
LONGEST_PAUSE_S = 120.0
"""A service that asks to wait longer counts as failed."""
_MAX_REASON_CHARS = 300
_TOO_LONG_MARKS = (
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "maximum context",
    "exceed_context_size",
    "input token count",  # Gemini
    "maximum prompt length",  # xAI
    "`inputs` tokens",  # TGI and Together
    "`inputs` must have less than",
    "longer than the model's",
    "too many tokens:",  # Cohere
    "maximum model length",  # vLLM
    "too long to fit into the model",
)
BUSY_STATUSES = {
    408: "The service took too long",
    409: "The service is busy",
    429: "The service's limit is reached",
    500: "The service failed",
    502: "The service failed",
    503: "The service is not available",
    504: "The service took too long",
    524: "The service took too long",
    529: "The service is overloaded",
}
_BUSY_STATUS_BY_KIND = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
}
_FINAL_STATUSES = {
    400: "The service rejected the request",
    402: "The account cannot pay for the answer",
    403: "This account may not use the model",
    404: "The model does not exist or is not available to this account",
    413: "The request is too large for the service",
    422: "The service rejected the request",
}
_UNREACHABLE_ERRORS = ("ConnectError", "ConnectionError", "ConnectionRefusedError", "gaierror")
_PARSE_ERRORS = {"JSONDecodeError", "UnicodeDecodeError", "ValidationError"}
_NO_GENERATION = "No generation"
MAX_ANSWER_CHARS = 2_000_000
"""Characters of an answer, with its thinking, unless the settings say otherwise."""
BROKE_OFF = "The connection broke off in the middle of the answer."
NOT_AN_ANSWER = "The service sent something that is not a model's answer."
_UNPAID_MARKS = ("insufficient_quota", "credit balance", "billing_error")
"""These come with the status of a limit or a bad request, but waiting does not help."""

_REASON_FIELDS = ("stop_reason", "finish_reason", "done_reason")
UNFINISHED = "unfinished"
"""The reason of an answer whose service did not say why it ended."""
_READ_SHARE = "read_share"
"""Key of a chunk's metadata: how much of a long prompt has been read, from 0 to 1."""
_CUT_REASONS = ("max_tokens", "length", "MAX_TOKENS", "model_context_window_exceeded", UNFINISHED)
_REFUSED_REASONS = ("refusal", "content_filter")
REFUSED = "The service's safeguards stopped the answer, because the question or the answer seemed to break its rules. Ask in other words, or choose another model."
RESTARTED = {"anew": True}
"""Response metadata of the chunk with which an answer starts again; earlier chunks no longer
count."""


class ModelError(Exception):
    """The model cannot answer; the message is a sentence saying why and what to do."""


class ModelBusy(ModelError):
    """The service is overloaded or its limit is reached; the same call may work in a moment."""

    def __init__(self, message: str, pause: float | None = None) -> None:
        """pause: seconds to wait before the next try; None if the transport has already retried."""
        super().__init__(message)
        self.pause = pause


class ContextTooLong(ModelError):
    """The messages exceed the model's context window."""


@runtime_checkable
class Preparable(Protocol):
    def prepare(self, system: str) -> None:
        """Prepare for a question with this system prompt, in the background. Raises
        `ModelError`."""


@runtime_checkable
class Stoppable(Protocol):
    def stop(self) -> None:
        """Stop the running generation: its stream ends, and what has come stays."""

    def close(self) -> None:
        """Close processes and connections."""


class ServiceError(Exception):
    """What a service answered instead of a model's answer."""

    def __init__(
        self, body: object, status: int | None = None, headers: Message | None = None
    ) -> None:
        """body: as JSON gives it, or the bytes. status: None in the middle of an answer."""
        super().__init__("")
        self.body = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        self.status_code = status
        self.headers = headers


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1", "0.0.0.0") or (
        host.startswith("127.") and host.replace(".", "").isdecimal()
    )


def as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def no_response_error(timeout: float | None) -> ModelError:
    duration = f" for {timeout:g} s" if timeout is not None else ""
    return ModelError(f"The model has not responded{duration}, so the answer was abandoned.")


def answer_too_long_error(max_answer_chars: int) -> ModelError:
    return ModelError(
        f"The answer was stopped after {max_answer_chars:,} characters. The setting max_answer_chars allows longer ones."
    )


def explain_error(
    error: Exception, *, key: str = "", secret: str = "", timeout: float | None = None
) -> ModelError:
    """Convert an exception of a provider's code for the user.

    Args:
        error: the exception.
        key: name of the variable that holds the key.
        secret: the key, to be masked.
        timeout: seconds without a byte before an answer was abandoned.
    """
    if isinstance(error, ModelError):
        return error

    response = getattr(error, "response", None)
    status = _number(getattr(error, "status_code", None) or getattr(response, "status_code", None))
    text = _error_text(error, secret)
    reason = f": {text.rstrip('.')}." if text else "."
    error_words = f"{_field(error, 'code')} {_field(error, 'type')} {text}".lower()
    if status in (None, 200, -1):  # in the middle of a stream
        status = _status_in_body(error, error_words)

    # Services send the same status for different failures, so their words come first.
    if status == 413 or (status != 429 and any(mark in error_words for mark in _TOO_LONG_MARKS)):
        return ContextTooLong(f"The conversation is too long for the model{reason}")
    if any(mark in error_words for mark in _UNPAID_MARKS):
        return ModelError(f"The account cannot pay for the answer{reason}")
    if status == 401:
        advice = f" Check {key}." if key else ""
        return ModelError(f"The key was not accepted{reason}{advice}")
    if status in BUSY_STATUSES:
        pause = retry_after(error)
        wait = ""
        if pause > LONGEST_PAUSE_S:
            wait = f" It asks to wait for {math.ceil(pause / 60):,} minutes."
        return ModelBusy(f"{BUSY_STATUSES[status]}{reason}{wait}", pause)
    if status in _FINAL_STATUSES:
        return ModelError(f"{_FINAL_STATUSES[status]}{reason}")
    return _explain_by_type(error, text, reason, timeout)


def _status_in_body(error: Exception, error_words: str) -> int | None:
    """Return the status that the body of an error names; None if it names none."""
    separate_words = error_words.split()
    for name, status in _BUSY_STATUS_BY_KIND.items():
        if name in separate_words:
            return status
    return _number(_field(error, "code"))


def _explain_by_type(error: Exception, text: str, reason: str, timeout: float | None) -> ModelError:
    """Convert an exception without a status. text: its own words. reason: these as the end of a
    sentence."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if any("Timeout" in name for name in names):
        return no_response_error(timeout)

    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    if any(type(cause).__name__ in _UNREACHABLE_ERRORS for cause in causes):
        words = " ".join(str(causes[-1]).split()).rstrip(".") or "there is no connection"
        return ModelError(f"The service cannot be reached: {words}.")

    if names & {"TransportError", "APIConnectionError"}:
        return ModelError(BROKE_OFF)
    if names & _PARSE_ERRORS or _NO_GENERATION in text:
        return ModelError(NOT_AN_ANSWER)
    if isinstance(error, ServiceError):
        return ModelError(f"The model could not answer{reason}")
    return ModelError(f"The model could not answer: {type(error).__name__}{reason}")


def is_busy(error: Exception) -> bool:
    return isinstance(explain_error(error), ModelBusy)


def retry_after(error: Exception) -> float:
    """Return the seconds that a service asks to wait; 0 if it does not say."""
    if isinstance(error, ModelBusy):
        return error.pause or 0.0
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    headers = headers or getattr(error, "headers", None) or {}
    try:
        milliseconds = _read_pause(headers.get("retry-after-ms"))
        seconds = _read_pause(headers.get("retry-after"))
    except AttributeError:  # the headers are not a mapping
        return 0.0
    if milliseconds is not None:
        seconds = milliseconds / 1000
    return min(max(0.0, seconds or 0.0), MAX_PAUSE_S)


def _read_pause(value: object) -> float | None:
    """Return how long a header asks to wait: its number, or the seconds until its date. None if it
    is neither."""
    text = str(value or "").strip()
    with contextlib.suppress(ValueError):
        seconds = float(text)
        return seconds if math.isfinite(seconds) else None
    with contextlib.suppress(ValueError, OverflowError):
        return parsedate_to_datetime(text).timestamp() - time.time()
    return None


def _number(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


def _descriptions(error: Exception) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of an error's body that may describe it, the best first."""
    body = getattr(error, "body", None)
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return
    if isinstance(body, list) and body:  # Gemini
        body = body[0]
    if isinstance(body, Mapping):
        inner = body.get("error")
        if isinstance(inner, Mapping):
            yield inner
        elif isinstance(inner, str):  # Ollama
            yield {"message": inner}
        detail = _detail(body.get("detail"))
        if detail and not body.get("message"):
            yield {"message": detail}
        yield body


def _detail(detail: object) -> str:
    """Return the text of an error of FastAPI, which is a string or a list of problems."""
    if isinstance(detail, str):
        return detail
    problems = [as_mapping(problem) for problem in detail] if isinstance(detail, list) else []
    texts = [str(problem["msg"]) for problem in problems if problem.get("msg")]
    return "; ".join(texts)


def _field(error: Exception, name: str) -> str:
    """Return the first value that a description has for a field; empty if none has it."""
    for description in _descriptions(error):
        value = description.get(name)
        if value not in (None, "", "error"):
            return str(value)
    return ""


def _error_text(error: Exception, secret: str) -> str:
    words = _field(error, "message")
    for body in _descriptions(error):
        # The provider behind OpenRouter, whose own message is only "Provider returned error".
        raw = as_mapping(body.get("metadata")).get("raw")
        if isinstance(raw, str) and raw.strip():
            words = _field(ServiceError(raw), "message") or raw
    if not words:
        words = str(getattr(error, "error", "") or getattr(error, "message", "") or error)
    if not words and isinstance(error, ServiceError) and not any(_descriptions(error)):
        text = str(error.body or "")
        words = "" if text.lstrip().startswith("<") else text  # a page is for browsers
    from mahtab_tui.bus.masking import mask_secret  # not needed before the first picture

    # Masked before it is cut, which could leave a part of the key.
    line = str(mask_secret(" ".join(words.split()), secret))
    if len(line) <= _MAX_REASON_CHARS:
        return line
    return f"{line[:_MAX_REASON_CHARS]} …"


# Messages and chunks of LangChain


def message_text(message: BaseMessage) -> str:
    return str(message.text)


def message_reasoning(message: BaseMessage) -> str:
    """Return a model's thinking, which is no part of its answer."""
    thought = message.additional_kwargs.get("reasoning_content")
    texts = [thought] if isinstance(thought, str) else []
    for block in message.content if isinstance(message.content, list) else ():
        if isinstance(block, dict) and block.get("type") in ("thinking", "reasoning"):
            texts.append(str(block.get("thinking") or block.get("reasoning") or ""))
    return "".join(texts)


def read_share_metadata(share: float) -> dict[str, str]:
    """Return the metadata of a message that says how much of the prompt has been read. It is text,
    because LangChain joins the metadata of messages."""
    return {_READ_SHARE: str(share)}


def read_share(metadata: Mapping[str, Any]) -> float | None:
    """Return the share of the prompt that has been read; None if a message does not say."""
    share = metadata.get(_READ_SHARE)
    return None if share is None else float(share)


def make_encodable(text: str) -> str:
    """Return text that can be encoded: surrogate pairs are joined, lone surrogates become
    U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_cut(metadata: Mapping[str, Any]) -> bool:
    return any(metadata.get(reason) in _CUT_REASONS for reason in _REASON_FIELDS)


def cut_note(metadata: Mapping[str, Any]) -> str:
    """Return a sentence for an answer that is cut off, or may be; empty for others."""
    if any(metadata.get(reason) == UNFINISHED for reason in _REASON_FIELDS):
        return "The answer may be cut off: the service did not say that it is complete."
    if is_cut(metadata):
        return "The answer was cut off: it reached the model's token limit."
    return ""


def is_refused(metadata: Mapping[str, Any]) -> bool:
    return any(metadata.get(reason) in _REFUSED_REASONS for reason in _REASON_FIELDS)


def has_restarted(metadata: Mapping[str, Any]) -> bool:
    return "anew" in metadata
