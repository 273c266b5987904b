"""Who gets the events of a search of `rlm`, besides the search itself."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable
from functools import partial

from mahtab_tui.bus.codec import as_json
from mahtab_tui.bus.records import Record, SearchChatStream, SearchRecord
from mahtab_tui.search.events import Emit
from mahtab_tui.search.logs import LogFile
from mahtab_tui.worker.rlm.turn_lines import TurnLines


def make_subscribers(
    on_event: Callable[[Record], None] | None, log_file: LogFile | None, verbose: bool
) -> list[Emit]:
    """Return what gets the events of a search.

    Args:
        on_event: A function of the caller.
        log_file: Gets all events.
        verbose: Whether a line for each turn and each answer is printed.
    """
    subscribers: list[Emit] = []
    if on_event is not None:
        subscribers.append(_call_until_it_fails(on_event))
    if log_file is not None:
        subscribers.append(log_file.write)
    if verbose:
        subscribers.append(partial(_print_event, TurnLines()))
    return subscribers


def _print_event(lines: TurnLines, record: Record) -> None:
    """Print an event to stderr, except for the pieces of answers."""
    if isinstance(record, SearchRecord) and not isinstance(record, SearchChatStream):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # there is no stderr
            sys.stderr.write(lines.describe(as_json(record)))


def _call_until_it_fails(on_event: Emit) -> Emit:
    """Return a function that calls another one, until that fails; a warning says so."""
    failed = False

    def emit(record: Record) -> None:
        nonlocal failed
        if failed:
            return
        try:
            on_event(record)
        except BaseException as error:  # even if it exits: this is the search's thread
            failed = True
            warnings.warn(
                f"on_event failed and will not be called again: {type(error).__name__}: {error}",
                stacklevel=2,
            )

    return emit
