"""A skill: a file with instructions, and the files beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError
from mahtab_tui.worker.walking import walk_folders

SKILL_FILE = "SKILL.md"
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_FILE_BYTES = 1_000_000
"""A skill's file may have this many bytes: a model should not load more at once."""
MAX_YAML_DEPTH = 20
MAX_SKILL_FILES = 50
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)(.*)", re.DOTALL | re.MULTILINE)


class Skill(NamedTuple):
    """Instructions for a kind of task, and the files that belong to them."""

    name: str
    description: str
    folder: Path | None
    """The folder of a ``SKILL.md``; None for a single ``NAME.md``."""
    content: str
    """The text of the file without the frontmatter."""
    file: Path
    of_project: bool = False
    """Whether it is in the project, so that anybody may have written it."""


class SkillError(Exception):
    """A skill cannot be used; the message says what is wrong and where."""


def read_skill(path: Path, project: Path | None = None) -> Skill:
    """Read a skill: a ``SKILL.md`` with frontmatter, or a single ``NAME.md``.

    Args:
        path: The file.
        project: The project that the skill belongs to, if it does; no link is followed out of it.

    Raises:
        SkillError: The file cannot be used.
    """
    return parse_skill(path, _read_text(path, project), project)


def parse_skill(path: Path, text: str, project: Path | None = None) -> Skill:
    """Return the skill of a text.

    Args:
        path: The file of the skill, which need not exist.
        text: Its content.
        project: As in `read_skill`.

    Raises:
        SkillError: The file could not be used.
    """
    match = _FRONTMATTER.match(text)
    has_folder = path.name == SKILL_FILE
    if match is None and (has_folder or text.startswith("---\n")):
        raise SkillError(
            f"{path}: the file does not begin with frontmatter between two lines of ---."
        )
    fields = _parse_fields(path, match[1]) if match else {}
    content = (match[2] if match else text).strip()

    expected_name = path.parent.name if has_folder else path.stem
    name = _text_field(path, fields, "name")
    if not has_folder:
        name = name or expected_name
    if problem := name_problem(name):
        raise SkillError(f"{path}: the name {name!r} cannot be used: {problem}.")
    if name != expected_name:
        kind = "folder" if has_folder else "file"
        raise SkillError(f"{path}: the name is {name!r}, but the {kind} is {expected_name!r}.")

    description = " ".join(_text_field(path, fields, "description").splitlines())
    if not has_folder:
        description = description or _first_paragraph(content)
    if not 0 < len(description) <= MAX_DESCRIPTION_CHARS:
        raise SkillError(
            f"{path}: the description must have 1 to {MAX_DESCRIPTION_CHARS:,} characters, not {len(description):,}."
        )

    folder: Path | None = None
    if has_folder and project is None:
        folder = path.parent
    elif has_folder:
        # The folder that was checked, not a link to it.
        folder = Path(os.path.realpath(path.parent))
    return Skill(name, description, folder, content, path, project is not None)


def _first_paragraph(content: str) -> str:
    """Return the first paragraph, or else the heading, as one line."""
    for block in re.split(r"\n\s*\n", content):
        text_lines = [line for line in block.splitlines() if not line.startswith("#")]
        if paragraph := " ".join(text_lines):
            return paragraph.strip()[:MAX_DESCRIPTION_CHARS]
    return content.strip("# \n")[:MAX_DESCRIPTION_CHARS]


def name_problem(name: str) -> str:
    """Return what is wrong with a skill's name, as the end of a sentence; empty if nothing is."""
    if len(name) > MAX_NAME_CHARS:
        return f"a name has at most {MAX_NAME_CHARS} characters"
    if not _NAME.fullmatch(name):
        return "use a-z, 0-9 and single hyphens between them"
    return ""


def _read_text(path: Path, project: Path | None) -> str:
    """Read a skill's file. Raises `SkillError`, also if it lies outside its project."""
    real_path = Path(os.path.realpath(path))
    root = real_path.parent
    if project is not None:
        root = Path(os.path.realpath(project))
        real_folder = Path(os.path.realpath(path.parent))
        is_inside = real_path.is_relative_to(root) and real_folder.is_relative_to(root)
        if not is_inside:
            raise SkillError(
                f"{path}: not read, because a link leads out of the project, to {real_path}. Put your own links in "
                "~/.mahtab/skills, or in a folder given with --skills-dir."
            )
    try:
        text = ConfinedFolder(root).read_text(str(real_path.relative_to(root)), MAX_FILE_BYTES)
        return text.replace("\r\n", "\n")
    except ConfinedFolderError as error:
        raise SkillError(f"{path}: {error}") from None


def _parse_fields(path: Path, text: str) -> dict[str, Any]:
    """Return the fields of the frontmatter. Raises `SkillError`."""
    import yaml

    # All scalars stay text, as specified: `name: 007` is not a number.
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_YAML_DEPTH:  # PyYAML's composer recurses without a limit
                raise SkillError(
                    f"{path}: the frontmatter is nested more than {MAX_YAML_DEPTH} deep."
                )
        fields = yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = ""
        if mark:
            # Marks count from 0, and the first line of the file is not part of the text.
            last_line = text.count("\n") - 1
            line = f", line {min(mark.line, last_line) + 2}"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SkillError(f"{path}{line}: the frontmatter is not valid YAML: {problem}.") from None
    if fields in (None, ""):
        return {}
    if not isinstance(fields, dict):
        raise SkillError(f"{path}: the frontmatter must be lines of the form key: value.")
    return fields


def _text_field(path: Path, fields: Mapping[str, Any], key: str) -> str:
    """Return a field; empty if there is none. Raises `SkillError` if it is not text."""
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise SkillError(f"{path}: {key} must be text.")
    return value.strip()


def skill_files(skill: Skill) -> list[str]:
    """List the files beside a skill's own, by relative path."""
    if skill.folder is None:
        return []
    paths: list[str] = []
    for folder, subfolders, names in walk_folders(str(skill.folder)):
        # The walk goes into the folders that stay in this list.
        subfolders[:] = sorted(
            name for name in subfolders if not name.startswith(".") and name != "__pycache__"
        )
        for name in sorted(names):
            if not name.startswith("."):
                paths.append(os.path.relpath(os.path.join(folder, name), skill.folder))
        if len(paths) > MAX_SKILL_FILES:
            break
    other_paths = [path for path in paths if path != skill.file.name and path.isprintable()]
    return other_paths[:MAX_SKILL_FILES]


def instructions_text(skill: Skill) -> str:
    """Return what a model gets of a skill, and what is trusted."""
    return f"{skill.name}: {skill.description}\n\n{skill.content}"
