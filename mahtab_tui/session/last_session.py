"""The last conversation with a program that embeds the agent, for the next one's first prompt."""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.prompt import shorten
from mahtab_tui.settings.sources import home_folder

FILE_NAME = "last_session.json"
MAX_FILE_BYTES = 1_000_000
MAX_MENTIONED_CHARS = 2_000
"""Characters of a question, and of an answer, that the next prompt contains."""


class LastSession(NamedTuple):
    timestamp: float
    """Seconds since the epoch."""
    user: str
    assistant: str

    def describe(self) -> str:
        """Return the sentence that tells a model of it."""
        moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.timestamp))
        question = shorten(self.user, MAX_MENTIONED_CHARS)
        answer = shorten(self.assistant, MAX_MENTIONED_CHARS)
        return f"The last conversation, before this one, ended on {moment}.\nThe user: {question}\nThe assistant: {answer}"


def save_last_session(user: str, assistant: str) -> Path:
    """Save a question and its answer for the next session; returns the file. Raises `OSError`."""
    path = home_folder() / FILE_NAME
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    last = LastSession(time.time(), str(user), str(assistant))
    # Written beside it and renamed, so that a reader never sees half of it. Only its owner reads it.
    descriptor, draft = tempfile.mkstemp(prefix=".last_session", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(last._asdict(), file, ensure_ascii=False)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    return path


def load_last_session() -> LastSession | None:
    """Return what was saved last; None if there is nothing, or it cannot be read."""
    try:
        with (home_folder() / FILE_NAME).open(encoding="utf-8") as file:
            fields = json.loads(file.read(MAX_FILE_BYTES))
        return LastSession(
            float(fields["timestamp"]), str(fields["user"]), str(fields["assistant"])
        )
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
