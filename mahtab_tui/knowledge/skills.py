"""One skill, read or made: a folder with a ``SKILL.md`` by the Agent Skills specification
(agentskills.io), or one ``NAME.md``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, HeldError

SKILL_FILE = "SKILL.md"
NAME_LENGTH, DESCRIPTION_LENGTH, COMPATIBILITY_LENGTH = 64, 1024, 500
FILE_SIZE = 1_000_000
"""Bytes of a skill's file; a model should not load more at once."""
_DEPTH = 20
"""How deep frontmatter may be nested."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)(.*)", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"#{1,6}\s+")

_DESCRIPTION = "What this skill does. Use when the words of the question say so."

_TEMPLATE = """\
---
name: {name}
description: {description}
---

# {title}

1. **First step.** What to look at, and with which call.
2. **Second step.** What to do about it.
3. **Check.** How to see that it is right.
"""


class Skill(NamedTuple):
    """Instructions that the model loads when it needs them."""

    name: str
    description: str
    folder: Path | None
    """The folder of files that the instructions name; None for a single ``NAME.md``."""
    content: str
    """The instructions, without the frontmatter."""
    file: Path
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = {}
    allowed_tools: tuple[str, ...] = ()
    of_project: bool = False
    """It came with the project, so anybody may have written it."""


class SkillError(Exception):
    """A skill cannot be used; the message says what is wrong and where."""


def read_skill(path: Path, project: Path | None = None) -> Skill:
    """Read a skill from a ``SKILL.md`` or a ``NAME.md``. Raises `SkillError`.

    project: the folder that it came with; links out of that folder are not followed.
    """
    text = _text(path) if project is None else _text_within(path, project)
    matched = _FRONTMATTER.match(text)
    whole = path.name == SKILL_FILE
    if matched is None and text.startswith("---\n"):
        raise SkillError(f"{path}: the frontmatter has no second line of ---.")
    if matched is None and whole:
        raise SkillError(
            f"{path}: the file does not begin with frontmatter between two lines of ---."
        )
    fields = _fields(path, matched[1]) if matched else {}
    content = (matched[2] if matched else text).strip()
    expected = path.parent.name if whole else path.stem
    if whole and "name" not in fields:
        raise SkillError(f"{path}: the name is missing.")
    folder = (
        path.parent if project is None else Path(os.path.realpath(path.parent))
    )  # in a project what was checked, not a link to it
    return Skill(
        _name(path, _word(path, fields, "name") or expected, expected),
        _description(path, fields, "" if whole else first_paragraph(content)),
        folder if whole else None,
        content,
        path,
        _word(path, fields, "license"),
        _compatibility(path, fields),
        _metadata(path, fields.get("metadata") or {}),
        _tools(path, fields.get("allowed-tools") or ()),
        of_project=project is not None,
    )


def create_skill(place: Path, name: str, description: str | None = None) -> Path:
    """Make ``NAME/SKILL.md`` in a folder of skills and return its path. Raises `SkillError`."""
    if problem := name_problem(name):
        raise SkillError(f"The name {name!r} cannot be used: {problem}.")
    words = " ".join((description or _DESCRIPTION).split())
    if any("\ud800" <= character <= "\udfff" for character in words):
        raise SkillError("The description is not valid text.")
    if len(words) > DESCRIPTION_LENGTH:
        raise SkillError(
            f"The description has {len(words):,} characters; at most {DESCRIPTION_LENGTH:,} are allowed."
        )
    path = place / name / SKILL_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(
                _TEMPLATE.format(
                    name=name,
                    description=_as_yaml(words),
                    title=name.replace("-", " ").capitalize(),
                )
            )
    except FileExistsError:
        raise SkillError(f"{path} already exists.") from None
    except OSError as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)  # it may be incomplete, on a full disk
        raise SkillError(f"{path} cannot be written: {error.strerror}.") from None
    return path


def _as_yaml(words: str) -> str:
    """Quote a text, because a colon or a # has a meaning in YAML."""
    import yaml

    quoted: str = yaml.dump(words, default_style='"', allow_unicode=True, width=10_000)
    return quoted.strip()


def name_problem(name: str) -> str:
    """Return what is wrong with a skill's name, as the end of a sentence; empty if nothing."""
    if len(name) > NAME_LENGTH:
        return f"a name has at most {NAME_LENGTH} characters"
    if not _NAME.fullmatch(name):
        return "use a-z, 0-9 and single hyphens between them"
    return ""


def first_paragraph(content: str) -> str:
    """Return the first paragraph that is not a heading, or the first heading, as one line cut to
    the length of a description."""
    heading = ""
    for block in re.split(r"\n\s*\n", content):
        lines = [line.strip() for line in block.strip().splitlines()]
        headings = [line for line in lines if _HEADING.match(line)]
        heading = heading or (_HEADING.sub("", headings[0]) if headings else "")
        if words := " ".join(line for line in lines if line not in headings):
            return words[:DESCRIPTION_LENGTH]
    return heading[:DESCRIPTION_LENGTH]


def _text_within(path: Path, project: Path) -> str:
    own = os.path.realpath(project)
    for place in (path.parent, path):
        if os.path.commonpath([own, real := os.path.realpath(place)]) != own:
            raise SkillError(
                f"{path}: not read, because a link leads out of the project, to {real}. Put your own links in "
                "~/.mahtab/skills, or in a folder given with --skills-dir."
            )
    try:
        return _text(path, lambda name, flags: ConfinedFolder(own).open(os.path.relpath(real, own)))
    except HeldError as error:  # it has been replaced meanwhile
        raise SkillError(f"{path}: {error}") from None


def _open(name: str, flags: int) -> int:
    """Open without waiting: the file may have been replaced by a pipe."""
    return os.open(name, flags | os.O_NONBLOCK)


def _text(path: Path, opener: Callable[[str, int], int] = _open) -> str:
    try:
        if not path.is_file():
            raise SkillError(f"{path}: not a file.")
        with open(path, encoding="utf-8-sig", opener=opener) as file:
            if (size := os.fstat(file.fileno()).st_size) > FILE_SIZE:
                raise SkillError(
                    f"{path}: the file has {size:,} bytes; at most {FILE_SIZE:,} are allowed."
                )
            return file.read(FILE_SIZE)
    except UnicodeDecodeError as error:
        raise SkillError(f"{path}: the file is not UTF-8 text (byte {error.start}).") from None
    except OSError as error:
        raise SkillError(f"{path}: the file cannot be read: {error.strerror}.") from None


def _fields(path: Path, text: str) -> dict[str, Any]:
    import yaml

    # All scalars stay text, as the specification requires: `name: 007` is not a number, and no date
    # can be out of range.
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
                event, yaml.CollectionEndEvent
            )
            if depth > _DEPTH:  # PyYAML's composer recurses without a limit
                raise SkillError(f"{path}: the frontmatter is nested more than {_DEPTH} deep.")
        fields = yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        line = min(error.problem_mark.line, text.count("\n") - 1) + 2 if error.problem_mark else 1
        raise SkillError(
            f"{path}, line {line}: the frontmatter is not valid YAML: {error.problem}."
        ) from None
    except yaml.YAMLError as error:
        raise SkillError(
            f"{path}: the frontmatter is not valid YAML: {str(error).splitlines()[0]}."
        ) from None
    if fields in (None, ""):
        return {}
    if not isinstance(fields, dict):
        raise SkillError(f"{path}: the frontmatter must be lines of the form key: value.")
    return fields


def _word(path: Path, fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise SkillError(f"{path}: {key} must be text.")
    return value.strip()


def _name(path: Path, name: str, expected: str) -> str:
    if problem := name_problem(name):
        raise SkillError(f"{path}: the name {name!r} cannot be used: {problem}.")
    if name != expected:
        raise SkillError(
            f"{path}: the name is {name!r}, but the {'folder' if path.name == SKILL_FILE else 'file'} is {expected!r}."
        )
    return name


def _description(path: Path, fields: Mapping[str, Any], otherwise: str) -> str:
    description = (
        " ".join(_word(path, fields, "description").splitlines()) or otherwise
    )  # shown on one line
    if not description:
        raise SkillError(f"{path}: the description is missing.")
    if len(description) > DESCRIPTION_LENGTH:
        raise SkillError(
            f"{path}: the description has {len(description):,} characters; at most {DESCRIPTION_LENGTH:,} are allowed."
        )
    return description


def _compatibility(path: Path, fields: Mapping[str, Any]) -> str:
    compatibility = _word(path, fields, "compatibility")
    if len(compatibility) > COMPATIBILITY_LENGTH:
        raise SkillError(
            f"{path}: compatibility has {len(compatibility):,} characters; at most {COMPATIBILITY_LENGTH} are allowed."
        )
    return compatibility


def _metadata(path: Path, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(
        isinstance(word, str) for pair in value.items() for word in pair
    ):
        raise SkillError(f"{path}: metadata must be lines of the form key: text.")
    return value


def _tools(path: Path, value: Any) -> tuple[str, ...]:
    """Split names at blanks, as specified; lists and commas are accepted too."""
    if isinstance(value, str):
        # A blank inside parentheses belongs to the tool: Bash(git add:*).
        return tuple(re.findall(r"[^\s,(]+(?:\([^)]*(?:\)|\Z))?", value))
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return tuple(value)
    if value == ():
        return ()
    raise SkillError(f"{path}: allowed-tools must be names separated by blanks.")
