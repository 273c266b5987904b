"""Skills: reading, checking and trusting them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError
from mahtab_tui.settings import sources
from mahtab_tui.settings.model import home_folder, resource_folder

SKILL_FILE = "SKILL.md"
NAME_LENGTH, DESCRIPTION_LENGTH = 64, 1024
FILE_SIZE = 1_000_000
"""A model should not load more bytes at once."""
_DEPTH = 20

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)(.*)", re.DOTALL | re.MULTILINE)


class Skill(NamedTuple):
    name: str
    description: str
    folder: Path | None
    """None for a single ``NAME.md``."""
    content: str
    """Without the frontmatter."""
    file: Path
    of_project: bool = False
    """Anybody may have written it."""


class SkillError(Exception):
    """A skill cannot be used; the message says what is wrong and where."""


def read_skill(path: Path, project: Path | None = None) -> Skill:
    """Raises `SkillError`. project: no link is followed out of it."""
    text = _text(path, project)
    matched, whole = _FRONTMATTER.match(text), path.name == SKILL_FILE
    if matched is None and (whole or text.startswith("---\n")):
        raise SkillError(
            f"{path}: the file does not begin with frontmatter between two lines of ---."
        )
    fields = _fields(path, matched[1]) if matched else {}
    content = (matched[2] if matched else text).strip()
    expected = path.parent.name if whole else path.stem
    name = _text_field(path, fields, "name") or ("" if whole else expected)
    if problem := name_problem(name):
        raise SkillError(f"{path}: the name {name!r} cannot be used: {problem}.")
    if name != expected:
        kind = "folder" if whole else "file"
        raise SkillError(f"{path}: the name is {name!r}, but the {kind} is {expected!r}.")
    description = " ".join(_text_field(path, fields, "description").splitlines())
    if not whole:
        description = description or _first_paragraph(content)
    if not 0 < len(description) <= DESCRIPTION_LENGTH:
        raise SkillError(
            f"{path}: the description must have 1 to {DESCRIPTION_LENGTH:,} characters, not {len(description):,}."
        )
    # In a project, the folder that was checked, not a link to it.
    folder = path.parent if project is None else Path(os.path.realpath(path.parent))
    return Skill(name, description, folder if whole else None, content, path, project is not None)


def _first_paragraph(content: str) -> str:
    """Return the first paragraph, or else the heading, as one line."""
    for block in re.split(r"\n\s*\n", content):
        if words := " ".join(line for line in block.splitlines() if not line.startswith("#")):
            return words.strip()[:DESCRIPTION_LENGTH]
    return content.strip("# \n")[:DESCRIPTION_LENGTH]


def name_problem(name: str) -> str:
    """Return what is wrong, as the end of a sentence."""
    if len(name) > NAME_LENGTH:
        return f"a name has at most {NAME_LENGTH} characters"
    if not _NAME.fullmatch(name):
        return "use a-z, 0-9 and single hyphens between them"
    return ""


def _text(path: Path, project: Path | None) -> str:
    real = Path(os.path.realpath(path))
    root = real.parent if project is None else Path(os.path.realpath(project))
    folder = root if project is None else Path(os.path.realpath(path.parent))
    if not (real.is_relative_to(root) and folder.is_relative_to(root)):
        raise SkillError(
            f"{path}: not read, because a link leads out of the project, to {real}. Put your own links in "
            "~/.mahtab/skills, or in a folder given with --skills-dir."
        )
    try:
        text = ConfinedFolder(root).read_text(str(real.relative_to(root)), FILE_SIZE)
        return text.replace("\r\n", "\n")
    except ConfinedFolderError as error:
        raise SkillError(f"{path}: {error}") from None


def _fields(path: Path, text: str) -> dict[str, Any]:
    import yaml

    # All scalars stay text, as specified: `name: 007` is not a number.
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEPTH:  # PyYAML's composer recurses without a limit
                raise SkillError(f"{path}: the frontmatter is nested more than {_DEPTH} deep.")
        fields = yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {min(mark.line, text.count(chr(10)) - 1) + 2}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SkillError(f"{path}{line}: the frontmatter is not valid YAML: {problem}.") from None
    if fields in (None, ""):
        return {}
    if not isinstance(fields, dict):
        raise SkillError(f"{path}: the frontmatter must be lines of the form key: value.")
    return fields


def _text_field(path: Path, fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise SkillError(f"{path}: {key} must be text.")
    return value.strip()


_KEY = "skill"
"""Key in the record of trust."""
_FILES = 50


def skill_files(skill: Skill) -> list[str]:
    """List the other files by relative path."""
    found: list[str] = []
    if skill.folder is None:
        return found
    for folder, folders, names in os.walk(skill.folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name != "__pycache__"
        )
        paths = (os.path.join(folder, name) for name in sorted(names) if not name.startswith("."))
        found += [os.path.relpath(path, skill.folder) for path in paths]
        if len(found) > _FILES:
            break
    return [name for name in found if name != skill.file.name and name.isprintable()][:_FILES]


def skill_texts(skill: Skill) -> dict[Path, str]:
    texts = {skill.file: instructions_text(skill)}
    for name in skill_files(skill):
        assert skill.folder is not None
        try:
            texts[skill.folder / name] = ConfinedFolder(skill.folder).read_text(name)
        except ConfinedFolderError:  # the model cannot read it either
            continue
    return texts


def trust_texts(texts: Mapping[Path, str]) -> None:
    """Raises `SettingsError`."""
    from mahtab_tui.settings.values import allow

    allow({path: {_KEY: text} for path, text in texts.items()})


def is_trusted(record: Mapping[str, Mapping[str, Any]], path: Path, text: str) -> bool:
    """record: from `read_record`."""
    return sources.trusted_digests(record, path).get(_KEY) == sources.value_digest(text)


def is_trusted_file(skill: Skill, name: str, text: str) -> bool:
    assert skill.folder is not None
    path = skill.folder / os.path.normpath(name)
    return not skill.of_project or is_trusted(sources.read_record(), path, text)


def instructions_text(skill: Skill) -> str:
    return f"{skill.name}: {skill.description}\n\n{skill.content}"


_NO_SKILLS = frozenset({"readme.md", "license.md", "changelog.md", "contributing.md"})

_NAMED = 5


class ProjectFolder(NamedTuple):
    """A project's folder, out of which no link is followed."""

    folder: Path
    project: Path


def skill_folders(
    project: Path, extra: Sequence[Path] = (), *, of_project: bool = False
) -> tuple[Path | ProjectFolder, ...]:
    """A later folder wins. extra: instead of the project's ``skills``. of_project: a project's file
    names them, so those outside the project need trust."""
    root = os.path.realpath(project)

    def of(folder: Path) -> Path | ProjectFolder:
        inside = of_project and Path(os.path.realpath(project / folder)).is_relative_to(root)
        return ProjectFolder(project / folder, project) if inside else folder

    named = [*map(of, extra)] or [ProjectFolder(project / "skills", project)]
    return (
        resource_folder("skills"),
        ProjectFolder(project / ".mahtab" / "skills", project),
        ProjectFolder(project / ".claude" / "skills", project),
        *(each for each in named if isinstance(each, ProjectFolder)),
        home_folder() / "skills",
        *(each for each in named if isinstance(each, Path)),
    )


class SkillsLoader:
    """Reads the skills of folders; one thread at a time."""

    def __init__(self, *skills_dirs: Path | str | ProjectFolder) -> None:
        """A later folder wins."""
        self.folders = tuple(
            folder if isinstance(folder, ProjectFolder) else Path(folder) for folder in skills_dirs
        )
        self.problems: dict[str, Path | None] = {}
        """A sentence per unusable skill, and its file."""
        self.untrusted: tuple[Skill, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems, and which skills are held back."""
        if not self.untrusted:
            return tuple(self.problems)
        names = [skill.name for skill in self.untrusted]
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        listed = f"{'Skill' if len(names) == 1 else 'Skills'} of this project: {', '.join(names[:_NAMED])}{more}."
        return (
            *self.problems,
            f"{listed} No model gets them until you trust them: /skills, or mahtab-tui config trust.",
        )

    def load_all(self) -> list[Skill]:
        """Return the usable skills, by name."""
        seen: dict[str, Skill] = {}
        untrusted: list[Skill] = []
        problems: dict[str, Path | None] = {}
        for folder, project in _distinct_folders(self.folders):  # the strongest first
            real = Path(os.path.realpath(folder))
            if project is not None and not real.is_relative_to(os.path.realpath(project)):
                why = f"is a link out of the project, to {real}, so it is not read"
                problems[f"{folder}: this folder of skills {why}."] = None
                continue
            try:
                files = list(_skill_files(folder))
            except OSError as error:
                why = f"cannot be read: {error.strerror}"
                problems[f"{folder}: this folder of skills {why}."] = None
                continue
            is_own = project is None or os.path.realpath(project) == os.path.realpath(Path.home())
            record = None if is_own else sources.read_record()
            for path in files:
                try:
                    found = read_skill(path, project)
                except SkillError as error:
                    problems[str(error)] = path
                    continue
                if (stronger := seen.get(found.name)) is not None:
                    if found.of_project and not stronger.of_project:
                        why = f"not used, because {stronger.file} has the same name"
                        problems[f"{path}: {why}."] = None
                elif record is not None and not is_trusted(record, path, instructions_text(found)):
                    untrusted.append(found)
                else:
                    seen[found.name] = found
        self.problems = problems
        self.untrusted = tuple(sorted(untrusted, key=lambda skill: skill.name))
        return sorted(seen.values(), key=lambda skill: skill.name)


def _skill_files(folder: Path) -> Iterator[Path]:
    """Yield ``SKILL.md`` files, then others. Raises `OSError`."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    names = [name for name in names if not name.startswith(".")]
    whole = (folder / name / SKILL_FILE for name in names)
    yield from (path for path in whole if os.path.lexists(path))
    for name in names:
        is_other = name.lower() in _NO_SKILLS or name == SKILL_FILE
        if name.endswith(".md") and not is_other and not (folder / name).is_dir():
            yield folder / name


def _distinct_folders(
    folders: Sequence[Path | ProjectFolder],
) -> Iterator[tuple[Path, Path | None]]:
    """Yield each real folder once, the last first; the user's own have no project."""
    owns = {os.path.realpath(each) for each in folders if isinstance(each, Path)}
    seen = set()
    for each in reversed(folders):
        folder, project = each if isinstance(each, ProjectFolder) else (each, None)
        if (real := os.path.realpath(folder)) not in seen:
            seen.add(real)
            yield folder, None if real in owns else project
