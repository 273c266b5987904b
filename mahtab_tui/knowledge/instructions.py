"""Instructions that the model always gets: ``AGENTS.md`` or ``CLAUDE.md``, and what they import."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError
from mahtab_tui.settings import trust
from mahtab_tui.settings.files import home_folder

FILE_NAMES = ("AGENTS.md", "CLAUDE.md")
MAX_INSTRUCTIONS_CHARS = 40_000
"""Characters of all files together."""
MAX_IMPORT_DEPTH = 5
MAX_FILE_BYTES = 1_000_000
TRUST_KEY = "instructions"
"""Key in the record of trust."""
_IMPORT = re.compile(r"(?<!\S)@([\w./-]+)")
_CODE = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1|\Z)|`[^`\n]*`", re.MULTILINE | re.DOTALL)


class InstructionPart(NamedTuple):
    """A file of instructions, or one that it imports."""

    name: str
    """Relative to the project, or with ``~``."""
    text: str


class Instructions(NamedTuple):
    """A file of instructions with what it imports."""

    path: Path
    parts: tuple[InstructionPart, ...]
    trusted: bool
    """The user's own, or trusted as it is now."""

    @property
    def name(self) -> str:
        return self.parts[0].name

    @property
    def value(self) -> dict[str, list[list[str]]]:
        """What is trusted."""
        return {TRUST_KEY: [list(part) for part in self.parts]}


class FoundInstructions(NamedTuple):
    """The user's file, then the project's from its root."""

    files: tuple[Instructions, ...]
    problems: tuple[str, ...]

    @property
    def untrusted(self) -> tuple[Instructions, ...]:
        return tuple(file for file in self.files if not file.trusted)

    def texts(self) -> dict[str, str]:
        """Return the texts by file; the nearest have precedence."""
        parts = [part for file in self.files if file.trusted for part in file.parts]
        remaining_chars = MAX_INSTRUCTIONS_CHARS
        texts: dict[str, str] = {}
        for part in reversed(parts):
            text = part.text
            if len(text) > remaining_chars:
                omitted_chars = len(text) - remaining_chars
                text = f"{text[:remaining_chars]}\n[{omitted_chars:,} characters are left out.]"
            texts[part.name] = text
            remaining_chars = max(0, remaining_chars - len(part.text))
        return {part.name: texts[part.name] for part in parts}


def find_instructions(folder: Path) -> FoundInstructions:
    """Read the user's instructions, and those of the project in a folder."""
    problems: list[str] = []
    home_file = home_folder() / FILE_NAMES[0]
    files = list(_read(home_file, Path.home(), problems, own=True))
    folders = _project_folders(folder)
    # CLAUDE.md is only read where no folder has an AGENTS.md.
    for name in FILE_NAMES:
        project_files: list[Instructions] = []
        for project_folder in folders:
            project_files += _read(project_folder / name, folders[0], problems, own=False)
        if project_files:
            files += project_files
            break
    return FoundInstructions(tuple(files), tuple(problems))


def _project_folders(folder: Path) -> list[Path]:
    """Return the folders from the repository's root down to this one."""
    folders = [folder, *folder.parents]
    for index, candidate in enumerate(folders):
        if (candidate / ".git").exists():
            return folders[index::-1]
    return [folder]


def _read(path: Path, root: Path, problems: list[str], *, own: bool) -> Iterator[Instructions]:
    """Yield the instructions of a file, if it exists.

    Args:
        root: Nothing outside this folder is read.
        problems: Gets a sentence if the file cannot be read.
        own: Whether the file is the user's, which needs no trust.
    """
    if not os.path.lexists(path):
        return
    try:
        parts = tuple(_read_parts(ConfinedFolder(root), path.relative_to(root), (), own=own))
    except ConfinedFolderError as error:
        problems.append(f"Instructions: {error}")
        return

    is_in_home = os.path.realpath(root) == os.path.realpath(Path.home())
    instructions = Instructions(path, parts, trusted=own or is_in_home)
    if not instructions.trusted:
        trusted_digest = trust.trusted_digests(trust.read_trust_record(), path).get(TRUST_KEY)
        digest = trust.value_digest(instructions.value[TRUST_KEY])
        instructions = instructions._replace(trusted=trusted_digest == digest)
    yield instructions


def _read_parts(
    confined: ConfinedFolder, path: Path, importers: tuple[Path, ...], *, own: bool
) -> Iterator[InstructionPart]:
    """Yield a file and its imports. Raises `ConfinedFolderError` for the first only.

    Args:
        importers: The files through which this one is imported.
    """
    text = confined.read_text(str(path), MAX_FILE_BYTES)
    yield InstructionPart(f"~/{path}" if own else str(path), text)
    if len(importers) == MAX_IMPORT_DEPTH:
        return

    seen_paths = {path, *importers}
    for name in _IMPORT.findall(_CODE.sub("", text)):
        # The dot may end a sentence.
        imported = Path(os.path.normpath(path.parent / name.rstrip(".")))
        if imported in seen_paths or imported.is_absolute() or ".." in imported.parts:
            continue
        seen_paths.add(imported)
        try:
            yield from _read_parts(confined, imported, (*importers, path), own=own)
        except ConfinedFolderError:  # such as @somebody
            continue
