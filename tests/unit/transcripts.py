"""Transcripts folded from records, for tests."""

from __future__ import annotations

from typing import Any

from textual.theme import Theme

from mahtab_tui.bus.entries import AnswerText, Cell, Entry, Note, Question
from mahtab_tui.bus.records import Record
from mahtab_tui.tui.theme import Palette, role_variables
from mahtab_tui.tui.transcript.fold import Transcript
from tests import tags
from tests.records import made

NOW = 1_000.0


def record(tag: str, text: str = "", /, *, at: float = NOW, **attrs: Any) -> Record:
    return made(tag, text, attrs, at)


def answer(text: str, step: int = 0, **attrs: Any) -> Record:
    return record(tags.ASSISTANT_CHAT, text, turn=1, step=step, party="claude", **attrs)


def entered(code: str, cell: int = 1, **attrs: Any) -> Record:
    return record(tags.USER_REPL_IN, code, cell=cell, party="you", **attrs)


def printed(text: str, kind: str = "stdout", cell: int = 1) -> Record:
    return record(tags.USER_REPL_OUT_STREAM, text, cell=cell, kind=kind)


def ended(text: str = "", cell: int = 1, **attrs: Any) -> Record:
    return record(tags.USER_REPL_OUT, text, cell=cell, **attrs)


def display(text: str, data: str, cell: int = 1, mime: str = "text/html") -> Record:
    return record(tags.DISPLAY, text, cell=cell, mime=mime, data=data)


def folded(*records: Record) -> Transcript:
    transcript = Transcript(since=NOW)
    transcript.fold(records)
    return transcript


def outline(transcript: Transcript) -> list[tuple[str, str]]:
    def describe(entry: Entry) -> tuple[str, str]:
        match entry:
            case Cell():
                return "code", entry.code.strip("\n")
            case AnswerText():
                return "words", entry.source.strip("\n")
            case Question():
                return "question", entry.text
            case Note():
                return "note", entry.text
        raise AssertionError(entry)

    return [describe(entry) for entry in transcript.entries if not entry.hidden]


def palette_of(theme: Theme) -> Palette:
    names = ("foreground", "surface", "panel")
    return Palette.of(role_variables(theme) | {name: getattr(theme, name) for name in names})


def cell_of(transcript: Transcript, position: int = 0) -> Cell:
    cells = [entry for entry in transcript.entries if isinstance(entry, Cell) and not entry.hidden]
    return cells[position]


def output_of(cell: Cell) -> list[tuple[str, str]]:
    return [(line.kind, line.text) for line in cell.output]
