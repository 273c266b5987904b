"""Says in a sentence why a service failed, and what to do."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from mahtab_tui.llm.base import ContextTooLong, ModelBusy, ModelError, ServiceError, as_mapping

MAX_PAUSE_S = 1e6
"""A service that asks to wait longer is said to ask for this."""
LONGEST_PAUSE_S = 120.0
"""A service that asks to wait longer counts as failed."""
_MAX_REASON_CHARS = 300
"""Characters of a service's own words in a sentence."""
_TOO_LONG_MARKS = (
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "context limit",  # Anthropic, with the tokens of the answer
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
    "number of input tokens exceeds",  # Bedrock
    "total tokens limit",  # watsonx
    "maximum allowed token size",  # NVIDIA
)
"""Words of services about a conversation that is too long."""
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
"""Statuses after which the same call may work in a moment."""
_BUSY_STATUS_BY_KIND = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
}
"""The status that an error stands for, by the kind in its body."""
_FINAL_STATUSES = {
    400: "The service rejected the request",
    402: "The account cannot pay for the answer",
    403: "This account may not use the model",
    404: "The model does not exist or is not available to this account",
    413: "The request is too large for the service",
    422: "The service rejected the request",
}
"""Statuses after which the same call fails again."""
_UNREACHABLE_ERRORS = ("ConnectError", "ConnectionError", "ConnectionRefusedError", "gaierror")
_PARSE_ERRORS = {"JSONDecodeError", "UnicodeDecodeError", "ValidationError"}
"""Names of exceptions, so that no provider's package needs to be loaded."""
_NO_GENERATION = "No generation"
"""What LangChain says of an answer without a message."""
BROKE_OFF = "The connection broke off in the middle of the answer."
NOT_AN_ANSWER = "The service sent something that is not a model's answer."
_UNPAID_MARKS = ("insufficient_quota", "credit balance", "billing_error")
"""These come with the status of a limit or a bad request, but waiting does not help."""


def no_response_error(timeout: float | None) -> ModelError:
    """Return the error of a service that is silent. timeout: seconds, if they are known."""
    duration = f" for {timeout:g} s" if timeout is not None else ""
    return ModelError(f"The model has not responded{duration}, so the answer was abandoned.")


def answer_too_long_error(max_answer_chars: int) -> ModelError:
    """Return the error of an answer that was stopped after as many characters."""
    return ModelError(
        f"The answer was stopped after {max_answer_chars:,} characters. The setting max_answer_chars allows longer ones."
    )


def explain_error(
    error: Exception, *, key: str = "", secret: str = "", timeout: float | None = None
) -> ModelError:
    """Convert an exception of a provider's code for the user.

    Args:
        error: The exception.
        key: The name of the variable that holds the key.
        secret: The key, to be masked.
        timeout: Seconds without a byte before an answer was abandoned.
    """
    if isinstance(error, ModelError):
        return error

    response = getattr(error, "response", None)
    status = _whole_number(
        getattr(error, "status_code", None) or getattr(response, "status_code", None)
    )
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
    return _whole_number(_field(error, "code"))


def _explain_by_type(error: Exception, text: str, reason: str, timeout: float | None) -> ModelError:
    """Convert an exception without a status.

    Args:
        error: The exception.
        text: The message of the exception.
        reason: The message as the end of a sentence.
        timeout: As in `explain_error`.
    """
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
    """Return whether the same call may work in a moment."""
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


def _whole_number(value: object) -> int | None:
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
        problems = body.get("errors")
        if isinstance(problems, list) and problems and isinstance(problems[0], Mapping):
            yield problems[0]  # Cloudflare
        detail = _detail(body.get("detail"))
        if detail and not body.get("message"):
            yield {"message": detail}
        yield body


def _detail(detail: object) -> str:
    """Return the text of an error of FastAPI, which is a string, an object or a list of problems."""
    if isinstance(detail, str):
        return detail
    if isinstance(detail, Mapping):
        words = [detail.get(name) for name in ("message", "error", "msg")]
        return next((text for text in words if isinstance(text, str)), "")
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


def _error_words(error: Exception) -> str:
    """Return the words of a service about an error; empty if it has none."""
    words = _field(error, "message")
    for body in _descriptions(error):
        # The provider behind OpenRouter, whose own message is only "Provider returned error".
        raw = as_mapping(body.get("metadata")).get("raw")
        if isinstance(raw, str) and raw.strip():
            words = _field(ServiceError(raw), "message") or raw
    if not words:
        words = str(getattr(error, "error", "") or getattr(error, "message", "") or error)
    if words or not isinstance(error, ServiceError) or any(_descriptions(error)):
        return words
    text = str(error.body or "")
    is_page = text.lstrip().startswith("<")  # which is for browsers
    return "" if is_page else text


def _error_text(error: Exception, secret: str) -> str:
    """Return the words of a service about an error, masked and on one line."""
    from mahtab_tui.bus.masking import mask_secret  # not needed before the first picture

    words = _error_words(error)
    # Masked before it is cut, which could leave a part of the key.
    line = str(mask_secret(" ".join(words.split()), secret))
    if len(line) <= _MAX_REASON_CHARS:
        return line
    return f"{line[:_MAX_REASON_CHARS]} …"
