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
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_FILE_BYTES = 1_000_000
"""A model should not load more at once."""
MAX_YAML_DEPTH = 20
MAX_SKILL_FILES = 50
MAX_WARNED_SKILLS = 5
"""Untrusted skills that a warning names."""

TRUST_KEY = "skill"
"""Key in the record of trust."""
NOT_SKILLS = frozenset({"readme.md", "license.md", "changelog.md", "contributing.md"})
"""Markdown files that lie in a folder of skills."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)(.*)", re.DOTALL | re.MULTILINE)


class Skill(NamedTuple):
    """Instructions for a kind of task, and the files that belong to them."""

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
    """Read a skill: a ``SKILL.md`` with frontmatter, or a single ``NAME.md``.

    Args:
        project: The project that it belongs to: no link is followed out of it.

    Raises:
        SkillError: The file cannot be used.
    """
    return parse_skill(path, _read_text(path, project), project)


def parse_skill(path: Path, text: str, project: Path | None = None) -> Skill:
    """Return the skill that a text is as the file of this path, which need not exist.

    Args:
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
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise SkillError(f"{path}: {key} must be text.")
    return value.strip()


def skill_files(skill: Skill) -> list[str]:
    """List the other files by relative path."""
    if skill.folder is None:
        return []
    paths: list[str] = []
    for folder, subfolders, names in os.walk(skill.folder):
        # `os.walk` goes into those that stay in this list.
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


def skill_texts(skill: Skill) -> dict[Path, str]:
    """Return what must be trusted for a skill: its instructions and its other files, by path."""
    texts = {skill.file: instructions_text(skill)}
    for name in skill_files(skill):
        assert skill.folder is not None
        try:
            texts[skill.folder / name] = ConfinedFolder(skill.folder).read_text(name)
        except ConfinedFolderError:  # the model cannot read it either
            continue
    return texts


def trust_texts(texts: Mapping[Path, str]) -> None:
    """Trust the texts of skills as they are now. Raises `SettingsError`."""
    from mahtab_tui.settings.values import trust_values

    trust_values({path: {TRUST_KEY: text} for path, text in texts.items()})


def is_trusted(record: Mapping[str, Mapping[str, Any]], path: Path, text: str) -> bool:
    """Whether a file was trusted with this text. record: from `read_record`."""
    return sources.trusted_digests(record, path).get(TRUST_KEY) == sources.value_digest(text)


def is_trusted_file(skill: Skill, name: str, text: str) -> bool:
    """Whether a model may read a file of a skill."""
    if not skill.of_project:
        return True
    assert skill.folder is not None
    path = skill.folder / os.path.normpath(name)
    return is_trusted(sources.read_record(), path, text)


def instructions_text(skill: Skill) -> str:
    """Return what a model gets of a skill, and what is trusted."""
    return f"{skill.name}: {skill.description}\n\n{skill.content}"


class ProjectFolder(NamedTuple):
    """A project's folder, out of which no link is followed."""

    folder: Path
    project: Path


def skill_folders(
    project: Path, extra: Sequence[Path] = (), *, of_project: bool = False
) -> tuple[Path | ProjectFolder, ...]:
    """Return the folders in which a session finds skills; a later one wins.

    Args:
        project: The project's folder.
        extra: Folders to search instead of the project's ``skills``.
        of_project: A project's file names them, so that those inside the project need trust.
    """
    real_project = os.path.realpath(project)
    project_folders: list[ProjectFolder] = []
    own_folders: list[Path] = []
    for folder in extra:
        is_inside = Path(os.path.realpath(project / folder)).is_relative_to(real_project)
        if of_project and is_inside:
            project_folders.append(ProjectFolder(project / folder, project))
        else:
            own_folders.append(folder)
    if not extra:
        project_folders.append(ProjectFolder(project / "skills", project))

    return (
        resource_folder("skills"),
        ProjectFolder(project / ".mahtab" / "skills", project),
        ProjectFolder(project / ".claude" / "skills", project),
        *project_folders,
        home_folder() / "skills",
        *own_folders,
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
        names = ", ".join(skill.name for skill in self.untrusted[:MAX_WARNED_SKILLS])
        unnamed_count = len(self.untrusted) - MAX_WARNED_SKILLS
        if unnamed_count > 0:
            names += f" and {unnamed_count:,} more"
        noun = "Skill" if len(self.untrusted) == 1 else "Skills"
        return (
            *self.problems,
            f"{noun} of this project: {names}. No model gets them until you trust them: /skills, or mahtab-tui config trust.",
        )

    def load_all(self) -> list[Skill]:
        """Return the usable skills, by name."""
        skills: dict[str, Skill] = {}
        untrusted: list[Skill] = []
        problems: dict[str, Path | None] = {}
        for folder, project in _distinct_folders(self.folders):  # the strongest first
            try:
                paths = _list_skills(folder, project)
            except SkillError as error:
                problems[str(error)] = None
                continue

            # The home folder is the user's own even if it is the project.
            is_own = project is None or os.path.realpath(project) == os.path.realpath(Path.home())
            trust_record = None if is_own else sources.read_record()
            for path in paths:
                try:
                    skill = read_skill(path, project)
                except SkillError as error:
                    problems[str(error)] = path
                    continue
                stronger = skills.get(skill.name)
                if stronger is not None:
                    if skill.of_project and not stronger.of_project:
                        reason = f"not used, because {stronger.file} has the same name"
                        problems[f"{path}: {reason}."] = None
                    continue
                text = instructions_text(skill)
                if trust_record is not None and not is_trusted(trust_record, path, text):
                    untrusted.append(skill)
                else:
                    skills[skill.name] = skill

        # A clone of this program has the skills that are bundled with it.
        untrusted = [skill for skill in untrusted if not _is_copy(skill, skills.get(skill.name))]
        self.problems = problems
        self.untrusted = tuple(sorted(untrusted, key=lambda skill: skill.name))
        return sorted(skills.values(), key=lambda skill: skill.name)


def _is_copy(skill: Skill, other: Skill | None) -> bool:
    """Return whether models get the instructions of a project's skill anyway, from the user's own
    or a bundled one."""
    if other is None or other.of_project:
        return False
    return (other.description, other.content) == (skill.description, skill.content)


def _list_skills(folder: Path, project: Path | None) -> list[Path]:
    """List the files of skills in a folder. Raises `SkillError`."""
    real_folder = Path(os.path.realpath(folder))
    if project is not None and not real_folder.is_relative_to(os.path.realpath(project)):
        raise SkillError(
            f"{folder}: this folder of skills is a link out of the project, to {real_folder}, so it is not read."
        )
    try:
        return list(_skill_paths(folder))
    except OSError as error:
        raise SkillError(
            f"{folder}: this folder of skills cannot be read: {error.strerror}."
        ) from None


def _skill_paths(folder: Path) -> Iterator[Path]:
    """Yield ``SKILL.md`` files, then others. Raises `OSError`."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    names = [name for name in names if not name.startswith(".")]
    for name in names:
        path = folder / name / SKILL_FILE
        if os.path.lexists(path):
            yield path
    for name in names:
        is_skill = name.endswith(".md") and name != SKILL_FILE and name.lower() not in NOT_SKILLS
        if is_skill and not (folder / name).is_dir():
            yield folder / name


def _distinct_folders(
    folders: Sequence[Path | ProjectFolder],
) -> Iterator[tuple[Path, Path | None]]:
    """Yield each real folder once, the last first, with its project; the user's own have none."""
    own_folders = {os.path.realpath(folder) for folder in folders if isinstance(folder, Path)}
    real_paths: set[str] = set()
    for entry in reversed(folders):
        folder, project = entry if isinstance(entry, ProjectFolder) else (entry, None)
        real_folder = os.path.realpath(folder)
        if real_folder in real_paths:
            continue
        real_paths.add(real_folder)
        yield folder, None if real_folder in own_folders else project
