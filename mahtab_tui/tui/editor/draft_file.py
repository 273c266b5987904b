"""The editor's text on disk, for the next screen of a session whose screen was killed."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from mahtab_tui.bus.values import Mode
from mahtab_tui.settings.model import SettingsError
from mahtab_tui.settings.values import write_text
from mahtab_tui.store.resume import draft_path
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.widget import Widget

    from mahtab_tui.session import Session
    from mahtab_tui.tui.editor import EditorPane

MAX_DRAFT_CHARS = 100_000
"""A longer text is not saved."""
DRAFT_DELAY_S = 1.0
"""Seconds after the last change until the text in the editor is saved."""


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


class DraftSaver:
    """Saves what is in the editor, on a thread, and brings it back. Main thread only."""

    def __init__(self, session: Session, editor: EditorPane, owner: Widget) -> None:
        """
        Args:
            owner: The widget whose end ends the saving.
        """
        self._file = DraftFile(session)
        self._editor = editor
        self._owner = owner
        self._has_past = bool(session.past)
        self._fetcher = Fetcher(owner, max_running_jobs=1)
        self._timer: Timer | None = None

    def restore(self) -> None:
        """Put the saved draft of a resumed session into the editor, unless the user types already."""
        if not self._has_past or not self._editor.is_empty:
            return
        draft = self._file.read()
        if draft:
            self._editor.put(draft.mode, draft.text)

    def save_soon(self) -> None:
        """Save the text after a pause, because it may be long.

        An empty one is saved at once: what was submitted must not come back as a draft if the
        screen is killed now.
        """
        if self._timer is not None:
            self._timer.stop()
        if self._editor.is_empty:
            self._save()
        else:
            self._timer = self._owner.set_timer(DRAFT_DELAY_S, self._save)

    def forget(self) -> None:
        """Remove the saved draft, because the user leaves."""
        if self._timer is not None:
            self._timer.stop()
        self._fetcher.forget("draft")
        self._file.write(SavedDraft(mode="python", text=""))

    def _save(self) -> None:
        draft = SavedDraft(mode=self._editor.mode, text=self._editor.text)
        write = partial(self._file.write, draft)
        self._fetcher.run("draft", write, lambda _: None)
