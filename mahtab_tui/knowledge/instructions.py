"""Instructions that the model always gets: ``AGENTS.md`` or ``CLAUDE.md``, and what they import."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError
from mahtab_tui.settings import sources
from mahtab_tui.settings.sources import home_folder

NAMES = ("AGENTS.md", "CLAUDE.md")
LIMIT = 40_000
"""Characters of all files together."""
_DEPTH = 5
_LARGEST = 1_000_000
_IMPORT = re.compile(r"(?<!\S)@([\w./-]+)")
_CODE = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1|\Z)|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_TRUSTED = "instructions"
"""Key in the record of trust."""


class InstructionPart(NamedTuple):
    name: str
    """Relative to the project, or with ``~``."""
    text: str


class Instructions(NamedTuple):
    path: Path
    parts: tuple[InstructionPart, ...]
    trusted: bool
    """The user's own, or trusted as it is now."""

    @property
    def name(self) -> str:
        return self.parts[0].name

    @property
    def value(self) -> dict[str, list[list[str]]]:
        return {_TRUSTED: [list(part) for part in self.parts]}


class FoundInstructions(NamedTuple):
    """The user's file, then the project's from its root."""

    files: tuple[Instructions, ...]
    problems: tuple[str, ...]

    @property
    def untrusted(self) -> tuple[Instructions, ...]:
        return tuple(each for each in self.files if not each.trusted)

    def texts(self) -> dict[str, str]:
        """Return the texts by file; the nearest have precedence."""
        room, texts = LIMIT, dict[str, str]()
        parts = [part for each in self.files if each.trusted for part in each.parts]
        for part in reversed(parts):
            texts[part.name] = (
                part.text
                if len(part.text) <= room
                else f"{part.text[:room]}\n[{len(part.text) - room:,} characters are left out.]"
            )
            room = max(0, room - len(part.text))
        return {part.name: texts[part.name] for part in parts}


def find_instructions(folder: Path) -> FoundInstructions:
    problems: list[str] = []
    files = list(_read(home_folder() / NAMES[0], Path.home(), problems, own=True))
    folders = _folders(folder)
    for name in NAMES:
        found = [
            each
            for each_folder in folders
            for each in _read(each_folder / name, folders[0], problems, own=False)
        ]
        if found:
            files += found
            break
    return FoundInstructions(tuple(files), tuple(problems))


def _folders(folder: Path) -> list[Path]:
    """Return the folders from the repository's root."""
    above = [folder, *folder.parents]
    root = next((index for index, each in enumerate(above) if (each / ".git").exists()), 0)
    return above[root::-1]


def _read(path: Path, root: Path, problems: list[str], *, own: bool) -> Iterator[Instructions]:
    if not os.path.lexists(path):
        return
    try:
        parts = tuple(_parts(ConfinedFolder(root), path.relative_to(root), (), own=own))
    except ConfinedFolderError as error:
        problems.append(f"Instructions: {error}")
        return
    found = Instructions(
        path, parts, trusted=own or os.path.realpath(root) == os.path.realpath(Path.home())
    )
    if not found.trusted:
        known = sources.trusted_digests(sources.read_record(), path).get(_TRUSTED)
        found = found._replace(trusted=known == sources.value_digest(found.value[_TRUSTED]))
    yield found


def _parts(
    confined: ConfinedFolder, path: Path, above: tuple[Path, ...], *, own: bool
) -> Iterator[InstructionPart]:
    """Read a file and its imports. Raises `ConfinedFolderError` for the first only."""
    text = confined.read_text(str(path), _LARGEST)
    yield InstructionPart(f"~/{path}" if own else str(path), text)
    if len(above) == _DEPTH:
        return
    seen = {path, *above}
    for name in _IMPORT.findall(_CODE.sub("", text)):
        wanted = Path(os.path.normpath(path.parent / name.rstrip(".")))
        if wanted in seen or wanted.is_absolute() or ".." in wanted.parts:
            continue
        seen.add(wanted)
        try:
            yield from _parts(confined, wanted, (*above, path), own=own)
        except ConfinedFolderError:  # such as @somebody
            continue
