"""The tools that every session has."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from mahtab_tui.knowledge.loaded_skills import SkillsBudgetExceeded
from mahtab_tui.tools.tool import Tool, ToolContext


class _Arguments(BaseModel):
    """Unknown arguments are refused rather than ignored."""

    model_config = ConfigDict(extra="forbid")


_Encoding = Annotated[
    str, Field(description='encoding of the files, if it cannot be detected, such as "cp037"')
]


class SearchSkills(_Arguments):
    query: str = Field(description="words, or an identifier or a part of one")
    limit: int = Field(5, ge=1, le=50, description="at most this many")


def search_skills(context: ToolContext, arguments: SearchSkills) -> str:
    """Return the skills that match a query, one line each: name and description."""
    return context.skills.describe_matches(arguments.query, arguments.limit)


class LoadSkill(_Arguments):
    name: str = Field(description="the skill's name")
    args: str = Field("", description="what to use the skill on")
    file: str = Field(
        "",
        description="return this file of the skill instead of the instructions: its path inside the skill's folder",
    )


def load_skill(context: ToolContext, arguments: LoadSkill) -> str:
    """Return the instructions of a skill, which stays loaded from now on; or a file of the skill."""
    if arguments.file:
        return context.skills.file(arguments.name, arguments.file)
    instructions = context.skills.instructions(arguments.name, arguments.args)
    try:
        context.loaded_skills.load(arguments.name)
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


def search_code(context: ToolContext, arguments: SearchCode) -> str:
    """Return the lines of the project's files that match a regular expression, with lines around them.

    Searches only the project's folder; skips hidden files, binary files and what .gitignore names.
    """
    return context.code.search(
        arguments.pattern,
        arguments.file_pattern,
        arguments.context_lines,
        ignore_case=arguments.ignore_case,
        limit=arguments.limit,
        encoding=arguments.encoding or None,
        cancelled=context.cancelled,
    ).as_text()


class ReadFile(_Arguments):
    path: str = Field(description="relative to the project's folder")
    start: int = Field(1, description="the first line, from 1")
    end: int | None = Field(None, description="the last line; by default the file's")
    encoding: _Encoding = ""


def read_file(context: ToolContext, arguments: ReadFile) -> str:
    """Return lines of a file of the project, each with its number. Files outside the project's folder are refused."""
    return context.code.read_file(
        arguments.path, arguments.start, arguments.end, arguments.encoding or None
    )


BUILTIN_TOOLS: tuple[Tool, ...] = (
    Tool(search_skills, SearchSkills),
    Tool(load_skill, LoadSkill, also="skill"),
    Tool(search_code, SearchCode),
    Tool(read_file, ReadFile),
)
