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
"""The names of files of instructions. A later name counts only where no file has an earlier one."""
MAX_INSTRUCTIONS_CHARS = 40_000
"""Characters of all files together that go to the model."""
MAX_IMPORT_DEPTH = 5
"""How many files may import each other in a chain, without the first."""
MAX_FILE_BYTES = 1_000_000
TRUST_KEY = "instructions"
"""The key of instructions in the record of trusted values."""
_IMPORT = re.compile(r"(?<!\S)@([\w./-]+)")
"""A mention of another file, such as ``@docs/style.md``."""
_CODE = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1|\Z)|`[^`\n]*`", re.MULTILINE | re.DOTALL)
"""Code in Markdown, where such a mention imports nothing."""


class InstructionPart(NamedTuple):
    """A file of instructions, or one that it imports."""

    name: str
    """Its path relative to the project, or with ``~`` for the user's own."""
    text: str


class Instructions(NamedTuple):
    """A file of instructions with what it imports."""

    path: Path
    parts: tuple[InstructionPart, ...]
    """The file itself comes first."""
    trusted: bool
    """Whether the model gets them: they are the user's own, or trusted as they are now."""

    @property
    def name(self) -> str:
        return self.parts[0].name

    @property
    def value(self) -> dict[str, list[list[str]]]:
        """The names and texts of all parts, as they are trusted by `settings.trust`."""
        return {TRUST_KEY: [list(part) for part in self.parts]}


class FoundInstructions(NamedTuple):
    """All instructions for a folder."""

    files: tuple[Instructions, ...]
    """The user's file, and then the project's from its root down to the folder."""
    problems: tuple[str, ...]
    """Sentences about files that could not be read."""

    @property
    def untrusted(self) -> tuple[Instructions, ...]:
        """The files that the model does not get yet."""
        return tuple(file for file in self.files if not file.trusted)

    def texts(self) -> dict[str, str]:
        """Return the texts that go to the model, by the names of their files.

        If they are too long together, the nearest to the folder have precedence.
        """
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


class _InstructionReader:
    """Reads files of instructions inside one folder."""

    def __init__(self, root: Path, problems: list[str], *, is_own: bool) -> None:
        """
        Args:
            root: Nothing outside this folder is read.
            problems: Gets a sentence for each file that cannot be read.
            is_own: Whether the files are the user's, which need no trust.
        """
        self._root = root
        self._problems = problems
        self._is_own = is_own

    def read(self, path: Path) -> Instructions | None:
        """Return the instructions of a file; None if it does not exist, or cannot be read."""
        if not os.path.lexists(path):
            return None
        confined = ConfinedFolder(self._root)
        relative_path = path.relative_to(self._root)
        try:
            parts = tuple(_read_parts(confined, relative_path, (), is_own=self._is_own))
        except ConfinedFolderError as error:
            self._problems.append(f"Instructions: {error}")
            return None
        instructions = Instructions(path, parts, trusted=True)
        return instructions._replace(trusted=self._is_trusted(instructions))

    def _is_trusted(self, instructions: Instructions) -> bool:
        """Return whether the instructions are the user's own, or trusted as they are now."""
        is_in_home = os.path.realpath(self._root) == os.path.realpath(Path.home())
        if self._is_own or is_in_home:
            return True
        digests = trust.trusted_digests(trust.read_trust_record(), instructions.path)
        return digests.get(TRUST_KEY) == trust.value_digest(instructions.value[TRUST_KEY])


def find_instructions(folder: Path) -> FoundInstructions:
    """Read the user's instructions, and those of the project in a folder."""
    problems: list[str] = []
    own_reader = _InstructionReader(Path.home(), problems, is_own=True)
    own_file = own_reader.read(home_folder() / FILE_NAMES[0])
    files = [] if own_file is None else [own_file]

    folders = _project_folders(folder)
    reader = _InstructionReader(folders[0], problems, is_own=False)
    for name in FILE_NAMES:
        readings = [reader.read(project_folder / name) for project_folder in folders]
        project_files = [instructions for instructions in readings if instructions is not None]
        if project_files:
            files += project_files
            break
    return FoundInstructions(tuple(files), tuple(problems))


def _project_folders(folder: Path) -> list[Path]:
    """Return the folders from the repository's root down to this one; this one alone without one."""
    folders = [folder, *folder.parents]
    for index, candidate in enumerate(folders):
        if (candidate / ".git").exists():
            return folders[index::-1]
    return [folder]


def _read_parts(
    confined: ConfinedFolder, path: Path, importers: tuple[Path, ...], *, is_own: bool
) -> Iterator[InstructionPart]:
    """Yield a file and its imports. Raises `ConfinedFolderError` for the first only.

    Args:
        confined: The folder that no import leaves.
        path: The file, relative to the folder.
        importers: The files through which this one is imported.
        is_own: Whether the file is the user's.
    """
    text = confined.read_text(str(path), MAX_FILE_BYTES)
    yield InstructionPart(f"~/{path}" if is_own else str(path), text)
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
            yield from _read_parts(confined, imported, (*importers, path), is_own=is_own)
        except ConfinedFolderError:  # such as @somebody
            continue
