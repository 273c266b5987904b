"""What limits an answer: its time, the code of objects that runs for it, and errors that are
sentences."""

from __future__ import annotations

import time
from typing import Any, Callable

from ..values.objects import TimeLimitError, run_with_timeout
from ..values.summaries import one_line, type_name

USER_CODE_TIMEOUT_S = 2.0
"""Seconds for an object's own code, run at the user's request."""
_MAX_ERROR_CHARS = 500


class InspectionError(Exception):
    """An object cannot be shown. The message is a sentence for the user."""


class AbandonedError(Exception):
    """Nobody waits for the answer."""


def run_limited(
    work: Callable[[], object], subject: str, seconds: float = USER_CODE_TIMEOUT_S
) -> Any:
    """Run an object's code.

    Args:
        work: Runs it.
        subject: What it is, as the beginning of a sentence.
        seconds: Time limit.

    Returns:
        What `work` returns.

    Raises:
        InspectionError: It took too long, or raised an error.
    """
    try:
        return run_with_timeout(seconds, work)
    except TimeLimitError:
        raise InspectionError(f"{subject} did not end within {seconds:g} s.") from None
    except InspectionError:
        raise
    except BaseException as error:  # raised by the object's code, including SystemExit
        raise InspectionError(f"{subject} raised {error_text(error)}") from None


def error_text(error: BaseException) -> str:
    """Return an error as the end of a sentence."""
    try:
        text = one_line(str(error), _MAX_ERROR_CHARS)
    except BaseException:  # the message's code may fail too
        text = ""
    if text:
        return f"{type_name(error)}: {text}"
    return f"{type_name(error)}."


class Deadline:
    """The time that an answer may take."""

    def __init__(self, seconds: float, is_abandoned: Callable[[], bool] = lambda: False) -> None:
        """Start the clock.

        Args:
            seconds: Time limit.
            is_abandoned: Returns whether the user has moved on.
        """
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._is_abandoned = is_abandoned

    def check(self) -> None:
        """Raise `AbandonedError` if nobody waits, or `InspectionError` if time is over."""
        if self._is_abandoned():
            raise AbandonedError("No one is waiting for this answer.")
        if time.monotonic() > self._end:
            raise InspectionError(f"This took longer than {self.seconds:g} s and was stopped.")
