"""Exports of sessions, those that are open and those that are saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.bus.masking import mask_spans
from mahtab_tui.bus.private_texts import PrivateTexts
from mahtab_tui.bus.records import Record
from mahtab_tui.export.entries import ExportedConversation
from mahtab_tui.export.rendering import ENDINGS
from mahtab_tui.export.selection import NothingToExport, select
from mahtab_tui.export.writing import write
from mahtab_tui.store.resume import database
from mahtab_tui.store.sqlite import ALL_RECORDS, load_records

if TYPE_CHECKING:
    from mahtab_tui.store.session_list import SessionRow

_FORMATS = f"The file's extension sets its format: {', '.join(ENDINGS)}."


class ExportError(Exception):
    """A session cannot be exported. The message is a sentence."""


def parse_export(typed_path: str, session_name: str) -> Path:
    """Return the file to which a session is exported.

    Args:
        typed_path: The path that the user typed; empty for a notebook named like the session.
        session_name: The session's name.

    Raises:
        ExportError: The extension is not that of a known format.
    """
    # The name may come from an untrusted file, and must not lead to another folder.
    name = Path(session_name).name.lstrip("~.") or "session"
    file = os.path.expanduser(typed_path.strip().strip("\"'") or f"{name}.ipynb")
    if not file.lower().endswith(ENDINGS):
        raise ExportError(f"{_FORMATS} {file} has none of them.")
    return Path(file)


def export_records(
    past: Iterable[Record], file: Path, name: str, mask: Callable[[str], str]
) -> str:
    """Export an open session, replacing the file.

    Args:
        past: All records of the session.
        file: Where to write it. The extension sets the format.
        name: The file as the user typed it.
        mask: Removes what no model may get.

    Returns:
        A sentence about the written file.

    Raises:
        NothingToExport: The session has nothing that the format contains.
        OSError: The file cannot be written.
    """
    conversation = ExportedConversation(past)
    conversation.mask_texts(mask)
    selected = select(conversation)
    write(selected, file, overwrite=True)
    return selected.sentence(name)


def export_session(
    row: SessionRow, path: Path, mask: Callable[[str], str], *, overwrite: bool = False
) -> str:
    """Export a saved session.

    Args:
        row: The session in the store.
        path: Where to write it. The extension sets the format.
        mask: Masks the secrets of the settings.
        overwrite: Whether an existing file is replaced.

    Returns:
        A sentence about the written file.

    Raises:
        StoreError: The session cannot be read.
        NothingToExport: It has nothing that the format contains, or the format is unknown.
        OSError: The file cannot be written; `FileExistsError` if it exists.
    """
    if path.suffix.lower() not in ENDINGS:
        raise NothingToExport(_FORMATS)
    page = load_records(database(), row.id, limit=ALL_RECORDS)
    conversation = ExportedConversation(stored[1] for stored in page.records)
    private_texts = PrivateTexts()
    private_texts.add(conversation.private_texts())
    conversation.mask_texts(mask)
    conversation.mask_texts(lambda text: mask_spans(text, private_texts.spans(text)))

    selected = select(conversation)
    write(selected, path, overwrite=overwrite)
    sentence = selected.sentence(str(path))
    if page.unreadable:
        sentence += f" Records left out because they cannot be read: {page.unreadable:,}."
    return sentence
