"""Makes notes of a conversation from records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Note
from mahtab_tui.bus.records import Record


def _make_notice_note(record: records.Notice) -> Note:
    """Return the note of a message to the user, which has its level."""
    return Note(level=record.level, text=record.text)


def _make_kernel_note(record: records.KernelRecord) -> Note:
    """Return the note of what has happened to the kernel."""
    level = "error" if record.state == "dead" else "info"
    return Note(level=level, text=record.text)


def _make_skill_note(record: records.SkillRecord) -> Note:
    """Return the note of a skill that was loaded, or that the model no longer has."""
    state = "no longer loaded"
    if record.loaded:
        state = f"loaded ({record.chars:,} characters)"
    return Note(level="quiet", text=f"the skill {record.name} is {state}")


def _make_quiet_note(record: Record) -> Note:
    """Return a quiet note with the text of a record. Exports leave out such notes."""
    return Note(level="quiet", text=record.text)


NOTE_MAKERS: Mapping[type[Record], Callable[[Any], Note]] = {
    records.Notice: _make_notice_note,
    records.KernelRecord: _make_kernel_note,
    records.SkillRecord: _make_skill_note,
    records.Undo: _make_quiet_note,
    records.Replace: _make_quiet_note,
    records.Restore: _make_quiet_note,
    records.Branch: _make_quiet_note,
}
"""The functions that make notes, by the classes of records that become notes. A note without text is
not shown."""
