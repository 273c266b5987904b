"""Says in a sentence why a service failed, and what to do.

`explain_error` gets the exceptions of all providers' packages and of our own clients. Callers need to
know only three kinds: the conversation is too long (`ContextTooLong`), the same call may work in a
moment (`ModelBusy`), or neither (`ModelError`).
"""

from __future__ import annotations

import contextlib
import math
import time
from email.utils import parsedate_to_datetime
from typing import Any

from mahtab_tui.llm.base import ContextTooLong, ModelBusy, ModelError, ServiceError
from mahtab_tui.llm.error_bodies import error_field, error_text

LONGEST_PAUSE_S = 120.0
"""A service that asks to wait longer counts as failed."""
MAX_PAUSE_S = 1e6
"""The longest pause that a sentence names, whatever the service asks for."""

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
"""Words of services about a conversation that is too long, for which there is no status of its own."""
_UNPAID_MARKS = ("insufficient_quota", "credit balance", "billing_error")
"""Words of services that want to be paid. They come with the status of a limit or of a bad request, but
waiting does not help."""

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
_BROKEN_CONNECTION_ERRORS = {"TransportError", "APIConnectionError"}
_PARSE_ERRORS = {"JSONDecodeError", "UnicodeDecodeError", "ValidationError"}
"""Exceptions by their names, so that no provider's package needs to be loaded."""
_NO_GENERATION = "No generation"
"""What LangChain says of an answer without a message."""

BROKE_OFF = "The connection broke off in the middle of the answer."
NOT_AN_ANSWER = "The service sent something that is not a model's answer."


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

    text = error_text(error, secret)
    reason = f": {text.rstrip('.')}." if text else "."
    all_words = f"{error_field(error, 'code')} {error_field(error, 'type')} {text}".lower()
    status = _status(error, all_words)

    # Services send the same status for different failures, so their words come first.
    is_limit = status == 429
    if status == 413 or (not is_limit and any(mark in all_words for mark in _TOO_LONG_MARKS)):
        return ContextTooLong(f"The conversation is too long for the model{reason}")
    if any(mark in all_words for mark in _UNPAID_MARKS):
        return ModelError(f"The account cannot pay for the answer{reason}")
    if status == 401:
        advice = f" Check {key}." if key else ""
        return ModelError(f"The key was not accepted{reason}{advice}")
    if status in BUSY_STATUSES:
        pause_s = retry_after(error)
        wait = ""
        if pause_s > LONGEST_PAUSE_S:
            wait = f" It asks to wait for {math.ceil(pause_s / 60):,} minutes."
        return ModelBusy(f"{BUSY_STATUSES[status]}{reason}{wait}", pause_s)
    if status in _FINAL_STATUSES:
        return ModelError(f"{_FINAL_STATUSES[status]}{reason}")
    return _explain_by_type(error, text, reason, timeout)


def _status(error: Exception, all_words: str) -> int | None:
    """Return the HTTP status of an error; None if it has none.

    An error in the middle of a stream comes with the status of its beginning, if with any. Then the
    body may say what the status would have been.

    Args:
        error: The exception.
        all_words: What the service says about it, in lower case.
    """
    response = getattr(error, "response", None)
    status = _whole_number(
        getattr(error, "status_code", None) or getattr(response, "status_code", None)
    )
    if status not in (None, 200, -1):
        return status
    separate_words = all_words.split()
    for kind, busy_status in _BUSY_STATUS_BY_KIND.items():
        if kind in separate_words:
            return busy_status
    return _whole_number(error_field(error, "code"))


def _explain_by_type(error: Exception, text: str, reason: str, timeout: float | None) -> ModelError:
    """Convert an exception without a status: nothing came from the service, or nothing useful.

    Args:
        error: The exception.
        text: The message of the exception.
        reason: The message as the end of a sentence.
        timeout: As in `explain_error`.
    """
    class_names = {cls.__name__ for cls in type(error).__mro__}
    if any("Timeout" in name for name in class_names):
        return no_response_error(timeout)

    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    if any(type(cause).__name__ in _UNREACHABLE_ERRORS for cause in causes):
        words = " ".join(str(causes[-1]).split()).rstrip(".") or "there is no connection"
        return ModelError(f"The service cannot be reached: {words}.")

    if class_names & _BROKEN_CONNECTION_ERRORS:
        return ModelError(BROKE_OFF)
    if class_names & _PARSE_ERRORS or _NO_GENERATION in text:
        return ModelError(NOT_AN_ANSWER)
    if isinstance(error, ServiceError):
        return ModelError(f"The model could not answer{reason}")
    return ModelError(f"The model could not answer: {type(error).__name__}{reason}")


def _whole_number(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


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
    """Return how long a header asks to wait; None if it does not say.

    The header is a number, such as ``30``, or a date, such as ``Wed, 21 Oct 2026 07:28:00 GMT``.
    """
    text = str(value or "").strip()
    with contextlib.suppress(ValueError):
        seconds = float(text)
        return seconds if math.isfinite(seconds) else None
    with contextlib.suppress(ValueError, OverflowError):
        return parsedate_to_datetime(text).timestamp() - time.time()
    return None


def no_response_error(timeout: float | None) -> ModelError:
    """Return the error of a service that is silent.

    Args:
        timeout: Seconds for which it was silent; None if they are not known.
    """
    duration = f" for {timeout:g} s" if timeout is not None else ""
    return ModelError(f"The model has not responded{duration}, so the answer was abandoned.")


def answer_too_long_error(max_answer_chars: int) -> ModelError:
    """Return the error of an answer that was stopped after as many characters."""
    return ModelError(
        f"The answer was stopped after {max_answer_chars:,} characters. The setting max_answer_chars allows longer ones."
    )
