"""Parts of the project's source, found by words and by meaning."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.knowledge.code import CodeError, is_wanted, list_files
from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError, split_lines
from mahtab_tui.knowledge.library import SkillsIndex
from mahtab_tui.knowledge.semantic_index import NEAREST, SemanticIndex, merge_rankings
from mahtab_tui.knowledge.skills import Skill

MOST = 5_000
"""Parts of a project that are searched."""
_FILES = 20_000
"""Files that are listed."""
_FILE_PARTS = 100
"""Parts of one file; what is longer is data."""
_LINES, _FEW_LINES = 40, 8
"""Lines of a part at most, and before it may end where a definition begins."""
_CHARACTERS = 3_000
_SHOWN, _SHOWN_LINES, _WIDTH = 5, 12, 200
"""Parts that are shown, lines of each, and characters of a line."""
_SECONDS = 20.0
_WORDS = re.compile(r"[^\W_][\w'-]*(?:[ ,]+[\w'-]+)+[ ?.!]*")
"""A pattern that is not a regular expression: some words."""
_TOP = re.compile(r"[^\s)\]}#]")
"""Begins a line on which a definition may begin."""


class _Part(NamedTuple):
    path: str
    first: int
    """Its first line, from 1."""
    text: str


class CodeParts:
    """The parts of the text files of a folder. Any thread may call it."""

    def __init__(self, folder: Path, meaning: SemanticIndex) -> None:
        self._folder = folder.absolute()
        self._meaning = meaning
        self._lock = threading.Lock()
        self._files: dict[str, tuple[tuple[int, int], list[_Part]]] = {}
        """Time, size and parts of each file."""
        self._parts: dict[str, _Part] = {}
        self._texts: dict[str, str] = {}
        self._index: SkillsIndex | None = None
        self._omitted = 0
        """Files that are not searched."""

    def search(self, words: str, file_pattern: str, cancelled: Callable[[], bool]) -> str:
        """Return the parts that fit some words best; empty for a regular expression or one word."""
        if not _WORDS.fullmatch(words.strip()):
            return ""
        with self._lock:
            try:
                self._read(cancelled)
            except CodeError as error:
                return str(error)
            parts, texts, index, omitted = self._parts, self._texts, self._index, self._omitted
        if index is None or cancelled():
            return ""
        by_words = [hit.name for hit in index.search(words, NEAREST)]
        by_meaning = self._meaning.nearest("code", words, texts)
        found = [
            parts[key]
            for key in merge_rankings(by_words, by_meaning)
            if is_wanted(parts[key].path, file_pattern)
        ]
        if not found:
            return ""
        lines = ["Near in words and meaning:" if by_meaning else "Near in words:"]
        for part in found[:_SHOWN]:
            shown = part.text.split("\n")
            lines.append(f"{part.path}:{part.first}-{part.first + len(shown) - 1}")
            lines += [
                f"{number:>6}  {line[:_WIDTH]}"
                for number, line in enumerate(shown[:_SHOWN_LINES], part.first)
            ]
        if omitted:
            lines.append(
                f"[The project is large: only its first {len(parts):,} parts are searched, {omitted:,} files are not.]"
            )
        if by_meaning and (missing := self._meaning.missing("code")):
            lines.append(
                f"[{missing:,} parts of the project are not known by meaning yet. Search again in a while.]"
            )
        return "\n".join(lines)

    def _read(self, cancelled: Callable[[], bool]) -> None:
        """Read the files that have changed. Raises `CodeError`."""
        listed, _ = list_files(self._folder, _FILES, _SECONDS, cancelled)
        confined, files = ConfinedFolder(self._folder), {}
        count = omitted = 0
        for path in listed:
            if count >= MOST or cancelled():
                omitted += 1
                continue
            with suppress(ConfinedFolderError, OSError):  # it is binary, too large, or gone
                status = (self._folder / path).stat()
                stamp, known = (status.st_mtime_ns, status.st_size), self._files.get(path)
                files[path] = (
                    known
                    if known is not None and known[0] == stamp
                    else (stamp, _split_file(path, confined.read_text(path)))
                )
                count += len(files[path][1])
        if files == self._files and self._index is not None:
            return
        self._files, self._omitted = files, omitted
        self._parts = {
            f"{part.path}:{part.first}": part for _, parts in files.values() for part in parts
        }
        self._texts = {key: f"{part.path}\n{part.text}" for key, part in self._parts.items()}
        if self._index is not None:
            self._index.close()
        self._index = SkillsIndex(
            Skill(key, part.path, None, part.text, Path(part.path))
            for key, part in self._parts.items()
        )


def _split_file(path: str, text: str) -> list[_Part]:
    """Divide a file where definitions begin, and where a part is long."""
    parts: list[_Part] = []
    lines: list[str] = []
    first = size = 0
    for number, line in enumerate(split_lines(text), 1):
        full = len(lines) >= _LINES or size + len(line) > _CHARACTERS
        if lines and (full or (len(lines) >= _FEW_LINES and _TOP.match(line))):
            parts.append(_Part(path, first, "\n".join(lines)))
            lines, size = [], 0
        if not lines:
            first = number
        lines.append(line[:_CHARACTERS])
        size += len(line)
    if lines:
        parts.append(_Part(path, first, "\n".join(lines)))
    return [part for part in parts if part.text.strip()][:_FILE_PARTS]
