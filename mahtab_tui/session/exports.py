"""Exports the running session into a file."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.bus.mask_spans import mask_spans
from mahtab_tui.bus.private_texts import PrivateTexts
from mahtab_tui.bus.store_handler import StoreError
from mahtab_tui.export.entries import Conversation
from mahtab_tui.export.selection import LONGEST, NothingToExport, select
from mahtab_tui.export.writing import ENDINGS, write

if TYPE_CHECKING:
    from mahtab_tui.session.session import Session
    from mahtab_tui.store.sqlite import SessionRow


class BadExport(Exception):
    """The argument of ``/export`` cannot be carried out; the message is a sentence."""


class ExportOrder(NamedTuple):
    """Export as the user ordered it: content and file."""

    file: Path
    """As it was typed."""
    folder: Path
    """Folder of the file, unless its path is absolute."""
    shown: bool = False
    """Nothing that is hidden from the model, replaced or undone."""
    whole: bool = False
    """Outputs of any length."""

    @property
    def path(self) -> Path:
        return self.folder / self.file


def order_of(typed: str, session_name: str, folder: Path) -> ExportOrder:
    """Read ``[FILE] [shown] [whole]``, in any order; a name with spaces is in quotes. Raises
    `BadExport`."""
    files, flags = list[str](), set[str]()
    try:
        words = shlex.split(typed)
    except ValueError:
        raise BadExport('A quotation mark is not closed: /export "my report.html"') from None
    for word in words:
        if word in ("shown", "whole"):
            flags.add(word)
        elif word.lower().endswith(ENDINGS):
            files.append(word)
        else:
            raise BadExport(
                f"The file's extension sets its format: {', '.join(ENDINGS)}. {word} has none of them."
            )
    if len(files) > 1:
        raise BadExport("Name one file, as in /export report.html.")
    own = (
        Path(session_name).name.lstrip("~.") or "session"
    )  # the name may come from a stranger's file: it leads to no other folder
    file = files[0] if files else f"{own}.ipynb"
    return ExportOrder(Path(os.path.expanduser(file)), folder, "shown" in flags, "whole" in flags)


def export(session: Session, order: ExportOrder) -> None:
    """Export on a thread; a notice tells how it went. Replaces the file."""

    def work() -> None:
        try:
            session.notice(_exported(session, order))
        except (StoreError, NothingToExport) as error:
            session.notice(str(error), "warning")
        except OSError as error:
            session.notice(f"{order.file} cannot be written: {error.strerror}.", "error")

    threading.Thread(target=work, name="export", daemon=True).start()


def export_session(
    row: SessionRow,
    path: Path,
    told: Callable[[str], str],
    *,
    shown: bool = False,
    whole: bool = False,
    over: bool = False,
) -> str:
    """Export a saved session, and say so in a sentence. told: covers what must not be written. The
    others: as in `ExportOrder`.

    Raises `StoreError`, `NothingToExport`, `OSError`; `FileExistsError` if the file is there and
    not `over`.
    """
    from mahtab_tui.store.resume import database
    from mahtab_tui.store.sqlite import ALL, load_records

    if path.suffix.lower() not in ENDINGS:
        raise NothingToExport(f"The file's extension sets its format: {', '.join(ENDINGS)}.")
    page = load_records(database(), row.id, limit=ALL)
    conversation = Conversation((record for _, record in page.records), asides=True)
    private = PrivateTexts()
    private.add(conversation.private_texts())
    conversation.cover(told)
    conversation.cover(lambda text: mask_spans(text, private.spans(text)))
    chosen = select(conversation, row.id, shown=shown, longest=None if whole else LONGEST)
    write(chosen, path, over=over)
    lost = (
        f" {page.unreadable:,} records cannot be read and are left out." if page.unreadable else ""
    )
    return chosen.sentence(str(path)) + lost


def _exported(session: Session, order: ExportOrder) -> str:
    """Write the file, and say so in a sentence."""
    conversation = Conversation(session.everything(), asides=True)
    conversation.cover(session.secrets.told)
    chosen = select(
        conversation, session.saved_id, shown=order.shown, longest=None if order.whole else LONGEST
    )
    write(chosen, order.path, over=True)
    return chosen.sentence(str(order.file))
