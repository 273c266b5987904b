"""The last exchange of a session, kept for the next one: ``~/.mahtab/last_session.json``."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

from pydantic import BaseModel, ValidationError

from mahtab_tui.settings.model import home_folder

MOST = 20_000
"""Characters of each text that are kept."""
_LARGEST = 1_000_000
"""Bytes of a file that is read at all."""


class LastSessionError(Exception):
    """The last session cannot be kept, or what was kept cannot be used; the message is a sentence."""


class LastSession(BaseModel):
    """What was said last."""

    timestamp: str
    """When, as ISO 8601 in UTC."""
    user: str
    assistant: str

    def as_text(self) -> str:
        """As the model is told of it."""
        return f"{self.timestamp}\nThe person: {self.user}\nYou: {self.assistant}"


def last_session_file() -> Path:
    """Where it is kept."""
    return home_folder() / "last_session.json"


def save_last_session(user: str, assistant: str) -> None:
    """Keep an exchange in the place of the one before, whole or not at all. Raises `LastSessionError`."""
    exchange = LastSession(timestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), user=_kept(user), assistant=_kept(assistant))
    path = last_session_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, exchange.model_dump_json(indent=2).encode())
    except OSError as error:
        raise LastSessionError(f"The last session could not be kept in {path}: {error.strerror}.") from None


def forget_last_session() -> None:
    """Keep nothing for the next session. Raises `LastSessionError`."""
    path = last_session_file()
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise LastSessionError(f"The last session in {path} could not be forgotten: {error.strerror}.") from None


def load_last_session() -> LastSession | None:
    """What was kept; None where there is nothing. Raises `LastSessionError` for a file that cannot be used."""
    path = last_session_file()
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LastSessionError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        return LastSession.model_validate_json(data)
    except ValidationError:
        raise LastSessionError(f"{path} is not what a session has kept there; it is ignored.") from None


def _kept(text: str) -> str:
    """The beginning of a text; lone surrogates, which no file can hold, become question marks."""
    return text[:MOST].encode("utf-8", "replace").decode("utf-8")


def _replace(path: Path, data: bytes) -> None:
    """Write a file that only its owner reads, and put it in the old one's place when it is complete."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
