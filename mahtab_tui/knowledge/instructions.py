"""Instructions that the model always gets: ``AGENTS.md`` of the user and of the project, or the
project's ``CLAUDE.md``, with the files that they import."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, HeldError
from mahtab_tui.settings import sources
from mahtab_tui.settings.sources import home_folder, trust_record

NAMES = ("AGENTS.md", "CLAUDE.md")
LIMIT = 40_000
"""Characters of all files together."""
_DEPTH = 5
"""How deep imports nest."""
_LARGEST = 1_000_000
"""Bytes of one file."""
_IMPORT = re.compile(r"(?<!\S)@([\w./-]+)")
_CODE = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1|\Z)|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_TRUSTED = "instructions"
"""The name of a file's content in the record of what the user trusts."""


class Part(NamedTuple):
    """A file, or one that it imports."""

    name: str
    """Relative to the project, or with ``~``."""
    text: str


class Instructions(NamedTuple):
    """A file with instructions, and what it imports."""

    path: Path
    parts: tuple[Part, ...]
    trusted: bool
    """The user's own file, or a project's file that the user has trusted as it is now."""

    @property
    def name(self) -> str:
        return self.parts[0].name

    @property
    def value(self) -> dict[str, list[list[str]]]:
        """Text of all parts, which the user trusts."""
        return {_TRUSTED: [list(part) for part in self.parts]}


class Found(NamedTuple):
    """All files with instructions: the user's, then the project's from its root to the present
    folder."""

    files: tuple[Instructions, ...]
    problems: tuple[str, ...]
    """A sentence for each file that cannot be read."""

    @property
    def held_back(self) -> tuple[Instructions, ...]:
        """The project's files that the user has not trusted as they are now."""
        return tuple(each for each in self.files if not each.trusted)

    def told(self) -> dict[str, str]:
        """Return what the model is told, by file. The nearest files come first if there is too
        much; of the first that does not fit, the beginning."""
        room, told = LIMIT, dict[str, str]()
        parts = [part for each in self.files if each.trusted for part in each.parts]
        for part in reversed(parts):
            told[part.name] = (
                part.text
                if len(part.text) <= room
                else f"{part.text[:room]}\n[{len(part.text) - room:,} characters are left out.]"
            )
            room = max(0, room - len(part.text))
        return {part.name: told[part.name] for part in parts}


def find(folder: Path) -> Found:
    """Find the instructions for work in a folder."""
    problems: list[str] = []
    files = list(_read(home_folder() / NAMES[0], Path.home(), problems, own=True))
    places = _places(folder)
    for name in NAMES:
        found = [
            each for place in places for each in _read(place / name, places[0], problems, own=False)
        ]
        if found:
            files += found
            break
    return Found(tuple(files), tuple(problems))


def _places(folder: Path) -> list[Path]:
    """Return the folders from the repository's root to this one; without a repository only this
    one."""
    above = [folder, *folder.parents]
    root = next((place for place, each in enumerate(above) if (each / ".git").exists()), 0)
    return above[root::-1]


def _read(path: Path, root: Path, problems: list[str], *, own: bool) -> Iterator[Instructions]:
    """Yield the instructions of a file, if it is there and can be read."""
    if not os.path.lexists(path):
        return
    try:
        parts = tuple(_parts(ConfinedFolder(root), path.relative_to(root), (), own=own))
    except HeldError as error:
        problems.append(f"Instructions: {error}")
        return
    found = Instructions(
        path, parts, trusted=own or os.path.realpath(root) == os.path.realpath(Path.home())
    )
    if not found.trusted:
        known = sources.allowed(trust_record(), path).get(_TRUSTED)
        found = found._replace(trusted=known == sources.digest(found.value[_TRUSTED]))
    yield found


def _parts(
    held: ConfinedFolder, path: Path, above: tuple[Path, ...], *, own: bool
) -> Iterator[Part]:
    """Read a file and what it imports, each once. Raises `HeldError` for the first file only."""
    text = held.read_text(str(path), _LARGEST)
    yield Part(f"~/{path}" if own else str(path), text)
    if len(above) == _DEPTH:
        return
    seen = {path, *above}
    for name in _IMPORT.findall(_CODE.sub("", text)):
        wanted = Path(os.path.normpath(path.parent / name.rstrip(".")))
        if wanted in seen or wanted.is_absolute() or ".." in wanted.parts:
            continue
        seen.add(wanted)
        try:
            yield from _parts(held, wanted, (*above, path), own=own)
        except HeldError:  # such as @somebody
            continue
