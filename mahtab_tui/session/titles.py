"""The title of the running session."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from mahtab_tui.bus.store_handler import StoreError
from mahtab_tui.store.resume import database
from mahtab_tui.store.session_index import rename_session as rename_saved
from mahtab_tui.store.session_index import title_of

if TYPE_CHECKING:
    from mahtab_tui.session.session import Session


def rename_session(session: Session, title: str) -> None:
    """Change the title on a thread; a notice tells how it went."""
    saved, masked = session.saved_id, title_of(session.secrets.mask(title))
    if not saved:
        session.notice("This session is not saved, so it has no title.", "warning")
        return

    def work() -> None:
        try:
            rename_saved(database(), saved, masked)
        except StoreError as error:
            session.notice(str(error), "warning")
        else:
            session.notice(f"This session is now called: {masked}")

    threading.Thread(target=work, name="rename", daemon=True).start()
