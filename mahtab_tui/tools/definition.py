"""The definition of a tool.

A tool is a function and the schema of its arguments. Everything else (its description for models, the function in the namespace) is made from
these two::

    class CountLines(BaseModel):
        path: str = Field(description="A file of the project")

    def count_lines(at: Workplace, given: CountLines) -> str:
        '''Return how many lines a file of the project has.'''
        return str(len(at.code.read_file(given.path).splitlines()))

    tool = Tool(count_lines, CountLines)

A package provides a tool with an entry point of the group ``mahtab_tui.tools`` that names ``tool``.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import threading
import traceback
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from mahtab_tui.kernel.base import HostFunction
from mahtab_tui.knowledge.code import CodeError, CodeSearcher
from mahtab_tui.knowledge.library import LoadedSkills, SkillLibrary, SkillNotFound
from mahtab_tui.worker.control import make_host_function

if TYPE_CHECKING:
    from mahtab_tui.knowledge.semantic_index import CodeParts

_STORED_UNDER = {"files": "path", "skills": "name"}
"""The argument that identifies a kept result, if there is one."""


class ToolError(Exception):
    """A tool cannot do what was asked; the message is a sentence for the model."""


@dataclass(frozen=True)
class Workplace:
    """Objects that a tool can use."""

    code: CodeSearcher
    """The project's source; files outside its folder are refused."""
    skills: SkillLibrary
    loaded: LoadedSkills
    """The skills that stay loaded in the session."""
    cancelled: threading.Event
    """Set when nobody waits for the result."""
    parts: CodeParts | None = None
    """Finds parts of the project's source by words and meaning; None without an embedding model."""


class Tool(NamedTuple):
    """A function that a model can call."""

    function: Callable[[Workplace, Any], str]
    """Its name is the tool's name, its docstring the description for models. Raises `ToolError`."""
    arguments: type[BaseModel]
    """The schema; the model sees the descriptions of its fields."""
    keeps: Literal["", "searches", "files", "skills"] = ""
    """Key of the turn's state that keeps the results: files by the argument ``path``, skills by
    ``name``."""
    also: str = ""
    """A second name in the namespace."""

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, self.also) if self.also else (self.name,)

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or ""

    def call(self, at: Workplace, arguments: Mapping[str, Any]) -> str:
        """Check the arguments and run the tool. Raises `ToolError` for any error."""
        try:
            given = self.arguments.model_validate(dict(arguments))
            return str(self.function(at, given))
        except KeyboardInterrupt:
            raise
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}"
                for one in error.errors()
            )
            raise ToolError(f"{self.name} was not called: {wrong}.") from None
        except (ToolError, SkillNotFound, CodeError) as error:
            raise ToolError(str(error)) from None
        except BaseException as error:  # a plug-in's code
            raise ToolError(f"{self.name} failed: {format_error(error)}") from error

    def with_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Add the defaults of missing arguments, as JSON values."""
        return {
            **{
                name: _default(field)
                for name, field in self.arguments.model_fields.items()
                if not field.is_required()
            },
            **arguments,
        }

    def host_functions(self) -> list[HostFunction]:
        """Return the tool as functions for the namespace, one for each of its names."""
        fields = sorted(
            self.arguments.model_fields.items(), key=lambda field: not field[1].is_required()
        )
        parameters = tuple(
            (
                name,
                _annotation(field.annotation),
                None if field.is_required() else repr(_default(field)),
            )
            for name, field in fields
        )
        described = [f"{name}: {field.description}" for name, field in fields if field.description]
        doc = "\n".join([self.description, "", *described, "Raises RuntimeError with a sentence."])
        return [HostFunction(name, self.name, parameters, doc) for name in self.names]

    def problem(self) -> str:
        """Return what is wrong with the definition, as the end of a sentence; empty if nothing."""
        function, arguments = cast(Any, self.function), cast(Any, self.arguments)
        if not hasattr(function, "__name__") or not (
            isinstance(arguments, type) and issubclass(arguments, BaseModel)
        ):
            return "it is not a function and a pydantic model"
        fields = self.arguments.model_fields
        if not all(
            name.isidentifier() and not keyword.iskeyword(name) for name in (*self.names, *fields)
        ):
            return "its names are not valid in Python"
        if any(field.validation_alias for field in fields.values()):
            return "its arguments have two names each"
        if self.keeps in _STORED_UNDER and _STORED_UNDER[self.keeps] not in fields:
            return f"its results are kept by the argument {_STORED_UNDER[self.keeps]}, which it does not have"
        for function in self.host_functions():
            make_host_function(function._asdict())
        return "" if self.description else "its function has no docstring"


def format_error(error: BaseException) -> str:
    """Format a plug-in's exception, which may have no message."""
    return "".join(traceback.format_exception_only(error)).strip()


def _default(field: FieldInfo) -> Any:
    """Return a default as a JSON value, as calls from the namespace send it."""
    return to_jsonable_python(field.get_default(call_default_factory=True))


def _annotation(annotation: Any) -> str:
    """Return a type as written in code, if possible."""
    if annotation is type(None):
        return "None"
    written = str(annotation).replace("typing.", "")
    if isinstance(annotation, type) and not typing.get_args(annotation):
        written = annotation.__name__
    try:
        ast.parse(written, mode="eval")
    except SyntaxError:
        return "object"
    return written
