"""The built-in tools: finding and loading skills, searching and reading the project's source."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from mahtab_tui.knowledge.loaded import SkillsBudgetExceeded
from mahtab_tui.tools.definition import Tool, Workplace


class _Arguments(BaseModel):
    """Unknown arguments are refused rather than ignored."""

    model_config = ConfigDict(extra="forbid")


_Encoding = Annotated[
    str, Field(description='encoding of the files, if it cannot be detected, such as "cp037"')
]


class SearchSkills(_Arguments):
    query: str = Field(description="words, or an identifier or a part of one")
    limit: int = Field(5, ge=1, le=50, description="at most this many")


def search_skills(at: Workplace, given: SearchSkills) -> str:
    """Return the skills that match a query, one line each: name and description."""
    return at.skills.found(given.query, given.limit)


class LoadSkill(_Arguments):
    name: str = Field(description="the skill's name")
    args: str = Field("", description="what to use the skill on")
    file: str = Field(
        "",
        description="return this file of the skill instead of the instructions: its path inside the skill's folder",
    )


def load_skill(at: Workplace, given: LoadSkill) -> str:
    """Return the instructions of a skill, which stays loaded from now on; or a file of the skill."""
    if given.file:
        return at.skills.file(given.name, given.file)
    instructions = at.skills.instructions(given.name, given.args)
    try:
        at.loaded.load(given.name)
    except SkillsBudgetExceeded as error:
        return f"{instructions}\n\n[The skill does not stay loaded. {error}]"
    return instructions


class SearchCode(_Arguments):
    pattern: str = Field(description="a regular expression, as in Python")
    file_pattern: str = Field("*", description='file names ("*.py") or paths ("src/**/*.cbl")')
    context_lines: int = Field(
        2, ge=0, le=50, description="lines shown before and after each match"
    )
    ignore_case: bool = Field(False, description="ignore upper and lower case")
    limit: int = Field(100, ge=1, le=10_000, description="at most this many matches")
    encoding: _Encoding = ""


def search_code(at: Workplace, given: SearchCode) -> str:
    """Return the lines of the project's files that match a regular expression, with lines around them.

    Searches only the project's folder; skips hidden files, binary files and what .gitignore names.
    """
    matches = at.code.search(
        given.pattern,
        given.file_pattern,
        given.context_lines,
        ignore_case=given.ignore_case,
        limit=given.limit,
        encoding=given.encoding or None,
        cancelled=at.cancelled,
    ).as_text()
    near = (
        ""
        if at.parts is None
        else at.parts.near(given.pattern, given.file_pattern, at.cancelled.is_set)
    )
    return f"{matches}\n\n{near}" if near else matches


class SearchCodeByMeaning(SearchCode):
    pattern: str = Field(
        description="a regular expression, as in Python; several plain words also find what is near them in meaning"
    )


class ReadFile(_Arguments):
    path: str = Field(description="relative to the project's folder")
    start: int = Field(1, description="the first line, from 1")
    end: int | None = Field(None, description="the last line; by default the file's")
    encoding: _Encoding = ""


def read_file(at: Workplace, given: ReadFile) -> str:
    """Return lines of a file of the project, each with its number. Files outside the project's folder are refused."""
    return at.code.read_file(given.path, given.start, given.end, given.encoding or None)


BUILTIN: tuple[Tool, ...] = (
    Tool(search_skills, SearchSkills, keeps="searches"),
    Tool(load_skill, LoadSkill, keeps="skills", also="skill"),
    Tool(search_code, SearchCode, keeps="searches"),
    Tool(read_file, ReadFile, keeps="files"),
)
BY_MEANING = Tool(search_code, SearchCodeByMeaning, keeps="searches")
"""`search_code` with an embedding model."""
