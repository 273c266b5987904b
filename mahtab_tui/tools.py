"""Functions that a model can call: the built-in ones, and those of packages.

A tool is a function and the schema of its arguments. Everything else (its description for models,
the function in the namespace) is made from these two::

    class CountLines(BaseModel):
        path: str = Field(description="A file of the project")

    def count_lines(workplace: Workplace, arguments: CountLines) -> str:
        '''Return how many lines a file of the project has.'''
        return str(len(workplace.code.read_file(arguments.path).splitlines()))

    tool = Tool(count_lines, CountLines)

A package provides a tool with an entry point of the group ``mahtab_tui.tools`` that names ``tool``.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import threading
import traceback
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from mahtab_tui.kernel.host import OWN_CALLS, HostFunction
from mahtab_tui.knowledge.code import CodeError, CodeSearcher
from mahtab_tui.knowledge.library import SkillLibrary, SkillNotFound, skill_library
from mahtab_tui.knowledge.loaded_skills import LoadedSkills, SkillsBudgetExceeded
from mahtab_tui.settings.model import load_settings
from mahtab_tui.system import Lazy
from mahtab_tui.worker.link.host_functions import make_host_function
from mahtab_tui.worker.tools.toolbox import NAMES

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from mahtab_tui.llm.background import ListedServer


PLUGIN_GROUP = "mahtab_tui.tools"
SKILL_TOOLS = ("search_skills", "load_skill")


class ToolError(Exception):
    """A tool cannot do what was asked; the message is a sentence for the model."""


@dataclass(frozen=True)
class Workplace:
    """What the functions of tools work with."""

    code: CodeSearcher
    """The project's source; files outside its folder are refused."""
    skills: SkillLibrary
    loaded: LoadedSkills
    """The skills that stay loaded in the session."""
    cancelled: threading.Event
    """Set when nobody waits for the result any more."""


class Tool(NamedTuple):
    """A function that a model can call."""

    function: Callable[[Workplace, Any], str]
    """Its name is the tool's name, its docstring the description for models. Raises `ToolError`."""
    arguments: type[BaseModel]
    also: str = ""
    """A second name in the namespace."""

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def names(self) -> tuple[str, ...]:
        """Its names in the namespace."""
        return (self.name, self.also) if self.also else (self.name,)

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or ""

    def call(self, workplace: Workplace, arguments: Mapping[str, Any]) -> str:
        """Check the arguments and run the tool. Raises `ToolError` for any error."""
        try:
            validated_arguments = self.arguments.model_validate(dict(arguments))
            return str(self.function(workplace, validated_arguments))
        except KeyboardInterrupt:
            raise
        except ValidationError as error:
            problems: list[str] = []
            for details in error.errors():
                field = ".".join(map(str, details["loc"])) or "arguments"
                problems.append(f"{field}: {details['msg']}")
            raise ToolError(f"{self.name} was not called: {'; '.join(problems)}.") from None
        except (ToolError, SkillNotFound, CodeError) as error:
            raise ToolError(str(error)) from None
        except BaseException as error:  # a plug-in's code
            raise ToolError(f"{self.name} failed: {_format_error(error)}") from error

    def host_functions(self) -> list[HostFunction]:
        """Return the functions for the namespace of cells, one for each name."""
        fields = self.arguments.model_fields
        # Parameters without a default come first.
        names = sorted(fields, key=lambda name: not fields[name].is_required())
        parameters = tuple(
            (name, _annotation_text(fields[name].annotation), _default_text(fields[name]))
            for name in names
        )
        doc_lines = [self.description, ""]
        for name in names:
            if fields[name].description:
                doc_lines.append(f"{name}: {fields[name].description}")
        doc_lines.append("Raises RuntimeError with a sentence.")
        doc = "\n".join(doc_lines)
        return [HostFunction(name, self.name, parameters, doc) for name in self.names]

    def problem(self) -> str:
        """Return what is wrong with the definition, as the end of a sentence."""
        # A plug-in may have put anything into the fields.
        function: object = self.function
        arguments: object = self.arguments
        is_model = isinstance(arguments, type) and issubclass(arguments, BaseModel)
        if not hasattr(function, "__name__") or not is_model:
            return "it is not a function and a pydantic model"

        for name in (*self.names, *self.arguments.model_fields):
            if not name.isidentifier() or keyword.iskeyword(name):
                return "its names are not valid in Python"
        for host_function in self.host_functions():
            make_host_function(host_function._asdict())  # raises if that is impossible
        return "" if self.description else "its function has no docstring"


def _format_error(error: BaseException) -> str:
    """Return an exception as Python prints it, without its traceback."""
    return "".join(traceback.format_exception_only(error)).strip()


def _default_text(field: FieldInfo) -> str | None:
    """Return the default of a parameter as code; None if it has none."""
    if field.is_required():
        return None
    return repr(to_jsonable_python(field.get_default(call_default_factory=True)))


def _annotation_text(annotation: object) -> str:
    """Return the annotation of a parameter as code."""
    if annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not typing.get_args(annotation):
        text = annotation.__name__
    else:
        text = str(annotation).replace("typing.", "")
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return "object"
    return text


# The built-in tools


class _Arguments(BaseModel):
    """Unknown arguments are refused rather than ignored."""

    model_config = ConfigDict(extra="forbid")


_Encoding = Annotated[
    str, Field(description='encoding of the files, if it cannot be detected, such as "cp037"')
]


class SearchSkills(_Arguments):
    query: str = Field(description="words, or an identifier or a part of one")
    limit: int = Field(5, ge=1, le=50, description="at most this many")


def search_skills(workplace: Workplace, arguments: SearchSkills) -> str:
    """Return the skills that match a query, one line each: name and description."""
    return workplace.skills.describe_matches(arguments.query, arguments.limit)


class LoadSkill(_Arguments):
    name: str = Field(description="the skill's name")
    args: str = Field("", description="what to use the skill on")
    file: str = Field(
        "",
        description="return this file of the skill instead of the instructions: its path inside the skill's folder",
    )


def load_skill(workplace: Workplace, arguments: LoadSkill) -> str:
    """Return the instructions of a skill, which stays loaded from now on; or a file of the skill."""
    if arguments.file:
        return workplace.skills.file(arguments.name, arguments.file)
    instructions = workplace.skills.instructions(arguments.name, arguments.args)
    try:
        workplace.loaded.load(arguments.name)
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


def search_code(workplace: Workplace, arguments: SearchCode) -> str:
    """Return the lines of the project's files that match a regular expression, with lines around them.

    Searches only the project's folder; skips hidden files, binary files and what .gitignore names.
    """
    return workplace.code.search(
        arguments.pattern,
        arguments.file_pattern,
        arguments.context_lines,
        ignore_case=arguments.ignore_case,
        limit=arguments.limit,
        encoding=arguments.encoding or None,
        cancelled=workplace.cancelled,
    ).as_text()


class ReadFile(_Arguments):
    path: str = Field(description="relative to the project's folder")
    start: int = Field(1, description="the first line, from 1")
    end: int | None = Field(None, description="the last line; by default the file's")
    encoding: _Encoding = ""


def read_file(workplace: Workplace, arguments: ReadFile) -> str:
    """Return lines of a file of the project, each with its number. Files outside the project's folder are refused."""
    return workplace.code.read_file(
        arguments.path, arguments.start, arguments.end, arguments.encoding or None
    )


BUILTIN: tuple[Tool, ...] = (
    Tool(search_skills, SearchSkills),
    Tool(load_skill, LoadSkill, also="skill"),
    Tool(search_code, SearchCode),
    Tool(read_file, ReadFile),
)


def load_tools(on_problem: Callable[[str], None]) -> dict[str, Tool]:
    """Load all tools. on_problem: called with a sentence for each unusable plug-in."""
    tools = {tool.name: tool for tool in BUILTIN}
    # A session in this process adds functions to builtins, which do not count.
    used_names = {
        name for name, value in vars(builtins).items() if not isinstance(value, FunctionType)
    }
    used_names.update(NAMES)
    # The kernel calls the host by these names.
    used_names.update(OWN_CALLS)
    for tool in BUILTIN:
        used_names.update(tool.names)

    for entry in sorted(entry_points(group=PLUGIN_GROUP)):
        try:
            plugin = _load_plugin(entry)
            duplicates = used_names.intersection(plugin.names)
            if duplicates:
                raise ToolError(f"cannot be used: the name {min(duplicates)} is already in use.")
        except ToolError as error:
            on_problem(f"The tool {entry.name} ({entry.value}) {error}")
        else:
            used_names.update(plugin.names)
            tools[plugin.name] = plugin
    return tools


def _load_plugin(entry: EntryPoint) -> Tool:
    """Load the tool of a plug-in. Raises `ToolError` with the end of a sentence."""
    try:
        tool = entry.load()
        problem = tool.problem() if isinstance(tool, Tool) else "it is not a mahtab_tui.tools.Tool"
    except BaseException as error:  # a plug-in's code
        raise ToolError(f"cannot be loaded: {_format_error(error)}") from None
    if problem:
        raise ToolError(f"cannot be used: {problem}.")
    return cast(Tool, tool)


class Toolset:
    """Loads and runs tools. Any thread may call it."""

    def __init__(
        self,
        code_dir: Path,
        skills: SkillLibrary,
        loaded: LoadedSkills,
        on_problem: Callable[[str], None],
        instructions: Callable[[], Mapping[str, str]] = dict,
        servers: Callable[[], Sequence[ListedServer]] = tuple,
    ) -> None:
        """
        Args:
            code_dir: The folder of the project's source.
            skills: The skills of the session.
            loaded: The skills that stay loaded in the session.
            on_problem: Called with a sentence for each unusable plug-in.
            instructions: Returns the standing instructions by file.
            servers: Describes the MCP servers for the model.
        """
        self.skills = skills
        self.loaded = loaded
        self.instructions = instructions
        self.servers = servers
        self._code = CodeSearcher(code_dir)
        self._tools = Lazy(lambda: load_tools(on_problem))

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools by name; waits while they are loaded."""
        return self._tools.get()

    def run(
        self, name: str, arguments: Mapping[str, Any], cancelled: threading.Event | None = None
    ) -> str:
        """Run a tool and return its result. Raises `ToolError`."""
        tool = self.tools.get(name)
        if tool is None:
            raise ToolError(f"There is no tool {name!r}. Tools: {', '.join(self.tools)}.")
        cancelled = cancelled or threading.Event()
        workplace = Workplace(self._code, self.skills, self.loaded, cancelled)
        return tool.call(workplace, arguments)

    def functions(self) -> list[HostFunction]:
        """Return the functions of all tools for the namespace of cells."""
        return [function for tool in self.tools.values() for function in tool.host_functions()]

    @cached_property
    def offered(self) -> list[BaseTool]:
        """The tools that a model is offered, with short schemas: those for skills only if there are
        others than the program's own. They stay the same in a session, because a prompt begins with
        them."""
        has_own_skills = bool(self.skills.descriptions(bundled=False))
        return [
            self.structured(tool, short=True)
            for tool in self.tools.values()
            if has_own_skills or tool.name not in SKILL_TOOLS
        ]

    def structured(self, tool: Tool, *, short: bool = False) -> BaseTool:
        """Return a LangChain tool, which returns errors as text. short: with less about it."""
        from langchain_core.tools import StructuredTool

        def run(**arguments: Any) -> str:
            try:
                return self.run(tool.name, arguments)
            except ToolError as error:
                return str(error)

        description = tool.description
        schema: type[BaseModel] | dict[str, Any] = tool.arguments
        if short:
            description, *_ = description.split("\n\n")
            schema = _short_schema(tool.arguments)
        return StructuredTool.from_function(
            run,
            name=tool.name,
            description=description,
            args_schema=schema,
            handle_validation_error=True,
        )


def _short_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the part of the JSON schema that a model needs to call the tool, because it goes with
    every request."""
    schema = arguments.model_json_schema()
    required = schema.get("required", [])
    properties: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        keys = {"type", "anyOf", "$ref", "items", "enum"}
        if name in required:
            keys.add("description")
        properties[name] = {key: value for key, value in field.items() if key in keys}
    short_schema = {"type": "object", "properties": properties, "required": required}
    if "$defs" in schema:
        short_schema["$defs"] = schema["$defs"]
    return short_schema


def get_all_tools(
    code_dir: Path | str | None = None, skills_dir: Path | str | None = None
) -> list[BaseTool]:
    """Return LangChain tools, which return errors as text. Unusable skills and plug-ins are left
    out.

    Args:
        code_dir: The folder of the source; by default that of a session started here.
        skills_dir: The folder of the skills; by default those of a session started here.
    """
    skills = skill_library(skills_dir)
    settings = load_settings()
    loaded = LoadedSkills(lambda: skills, settings.skills_budget)
    code = Path(code_dir or settings.code_dir)
    tools = Toolset(code, skills, loaded, lambda problem: None)
    return [tools.structured(tool) for tool in tools.tools.values()]
