"""What the commands without a screen have in common: their exit codes, and how they write."""

from __future__ import annotations

import contextlib
import json
import sys

from mahtab_tui.bus import codec
from mahtab_tui.bus.records import Record

# Exit codes.
ANSWERED_CODE = 0
FAILED_CODE = 1
"""There is no answer: the model, the kernel or the sandbox has failed."""
WRONG_ARGUMENTS_CODE = 2
REFUSED_CODE = 3
"""Code was not run, because nobody could approve it."""
PARTIAL_CODE = 4
"""A search has answered before it was complete."""
INTERRUPTED_CODE = 130


def json_line(record: Record) -> str:
    """Return a record as one line of JSON, with its time in milliseconds."""
    return json.dumps(codec.as_json(record.changed(time=round(record.time, 3))))


def write_stderr(text: str, end: str = "\n") -> None:
    """Write to stderr if possible; the answer does not depend on it."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, end=end, file=sys.stderr, flush=True)
