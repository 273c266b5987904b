"""Says which records become notes of a conversation, and how these read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Note
from mahtab_tui.bus.records import Record


def _read_notice(record: records.Notice) -> Note:
    return Note(level=record.level, text=record.text)


def _read_kernel(record: records.KernelRecord) -> Note:
    level = "error" if record.state == "dead" else "info"
    return Note(level=level, text=record.text)


def _read_skill(record: records.SkillRecord) -> Note:
    state = "no longer loaded"
    if record.loaded:
        state = f"loaded ({record.chars:,} characters)"
    return Note(level="quiet", text=f"the skill {record.name} is {state}")


def _read_quiet(record: Record) -> Note:
    return Note(level="quiet", text=record.text)


NOTE_READERS: Mapping[type[Record], Callable[[Any], Note]] = {
    records.Notice: _read_notice,
    records.KernelRecord: _read_kernel,
    records.SkillRecord: _read_skill,
    records.Undo: _read_quiet,
    records.Replace: _read_quiet,
    records.Restore: _read_quiet,
    records.Branch: _read_quiet,
}
"""Functions that make notes, by the types of records. A note without text is not shown."""
