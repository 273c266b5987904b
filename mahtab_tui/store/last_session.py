"""Saves the last question and answer of a session for the next one: ``~/.mahtab/last_session.json``."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel, ValidationError

from mahtab_tui.settings.model import SettingsError, home_folder

MOST = 20_000
"""Characters of each text that are saved."""
_LARGEST = 1_000_000
"""Bytes of the file that are read at most."""


class LastSessionError(Exception):
    """The exchange cannot be saved or loaded; the message is a sentence."""


class LastSession(BaseModel):
    timestamp: str
    """ISO 8601, in UTC."""
    user: str
    assistant: str

    def as_text(self) -> str:
        """Return the exchange as the model gets it."""
        return f"{self.timestamp}\nThe user: {self.user}\nYou: {self.assistant}"


def last_session_file() -> Path:
    return home_folder() / "last_session.json"


def save_last_session(user: str, assistant: str) -> None:
    """Replace the saved exchange, in one step. Raises `LastSessionError`."""
    from mahtab_tui.settings.writing import write_text

    exchange = LastSession(timestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), user=_kept(user), assistant=_kept(assistant))
    try:
        write_text(last_session_file(), exchange.model_dump_json(indent=2))
    except SettingsError as error:
        raise LastSessionError(f"The last session could not be saved. {error}") from None


def load_last_session() -> LastSession | None:
    """Load the saved exchange; None if there is none. Raises `LastSessionError` if the file cannot be used."""
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
        raise LastSessionError(f"{path} is not a saved exchange of a session; it is ignored.") from None


def _kept(text: str) -> str:
    """Cut a text to `MOST`. Lone surrogates, which UTF-8 cannot encode, become question marks."""
    return text[:MOST].encode("utf-8", "replace").decode("utf-8")
