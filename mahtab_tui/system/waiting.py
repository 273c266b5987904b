"""Waiting that Ctrl+C ends for certain."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

_AGAIN = 0.5
"""Seconds."""


def result_of(future: Future[T]) -> T:
    """`future.result()`, for the main thread: a signal that comes in the moment before it sleeps
    does not wake it, so it looks up now and then."""
    while True:
        try:
            return future.result(_AGAIN)
        except TimeoutError:
            if future.done():
                return future.result()  # perhaps the error is its own
