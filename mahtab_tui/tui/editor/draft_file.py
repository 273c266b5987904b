"""The editor's text on disk, for the next screen of a session whose screen was killed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from mahtab_tui.bus.values import Mode
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.settings.values import write_text

if TYPE_CHECKING:
    from mahtab_tui.session import Session

MAX_DRAFT_CHARS = 100_000
"""A longer text is not saved."""


class SavedDraft(BaseModel):
    """The text in the editor, and what Enter would do with it."""

    mode: Mode
    text: str


class DraftFile:
    """Reads and writes the draft of a session. Secrets in it are masked."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def _path(self) -> Path | None:
        from mahtab_tui.store.resume import draft_path

        session_id = self._session.saved_id
        if self._session.no_trace or not session_id:
            return None
        return draft_path(session_id)

    def read(self) -> SavedDraft | None:
        """Return the saved draft; None if there is none, or it cannot be read."""
        path = self._path
        if path is None:
            return None
        try:
            return SavedDraft.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, draft: SavedDraft) -> None:
        """Replace the saved draft; an empty or too long one removes it."""
        path = self._path
        if path is None:
            return
        if not draft.text.strip() or len(draft.text) > MAX_DRAFT_CHARS:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return
        masked = draft.model_copy(update={"text": self._session.mask(draft.text)})
        with suppress(SettingsError):
            write_text(path, masked.model_dump_json())
