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
from mahtab_tui.settings.files import home_folder

FILE_NAME = "last_session.json"
MAX_FILE_CHARS = 1_000_000
"""Characters of the file that are read; a longer one counts as damaged."""
MAX_SAVED_CHARS = 80_000
"""Characters of a question, and of an answer, that are saved: the file stays readable even if each of
them is escaped."""
MAX_MENTIONED_CHARS = 2_000
"""Characters of a question, and of an answer, that the next prompt contains."""


class LastSession(NamedTuple):
    """The last question of a conversation, and its answer."""

    timestamp: float
    """Seconds since the epoch."""
    user: str
    assistant: str

    def describe(self) -> str:
        """Return the lines that mention it to a model."""
        moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.timestamp))
        question = shorten(self.user, MAX_MENTIONED_CHARS)
        answer = shorten(self.assistant, MAX_MENTIONED_CHARS)
        return f"The last conversation, before this one, ended on {moment}.\nThe user: {question}\nThe assistant: {answer}"


def save_last_session(user: str, assistant: str) -> Path:
    """Save a question and its answer for the next session, and return the file's path.

    The middle of a text of more than 80,000 characters is left out. Raises `OSError`.
    """
    path = home_folder() / FILE_NAME
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    question = shorten(str(user), MAX_SAVED_CHARS)
    answer = shorten(str(assistant), MAX_SAVED_CHARS)
    session = LastSession(time.time(), question, answer)
    # Written beside it and renamed, so that a reader never sees half of it. `mkstemp` makes a file
    # that only its owner can read.
    descriptor, draft = tempfile.mkstemp(prefix=".last_session", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(session._asdict(), file, ensure_ascii=False)
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
            fields = json.loads(file.read(MAX_FILE_CHARS))
        timestamp = float(fields["timestamp"])
        time.localtime(timestamp)  # raises an error if it is not a moment that can be described
        return LastSession(timestamp, str(fields["user"]), str(fields["assistant"]))
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return None
