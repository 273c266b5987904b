"""What a tool is: a function that a model can call, and the schema of its arguments."""

from __future__ import annotations

import ast
import inspect
import keyword
import threading
import traceback
import typing
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from mahtab_tui.kernel.host import HostFunction
from mahtab_tui.knowledge.code import CodeError, CodeSearcher
from mahtab_tui.knowledge.library import SkillLibrary, SkillNotFound
from mahtab_tui.knowledge.loaded_skills import LoadedSkills
from mahtab_tui.worker.link.host_functions import make_host_function


class ToolError(Exception):
    """A tool cannot do what was asked; the message is a sentence for the model."""


class InvalidTool(Exception):
    """The definition of a tool is wrong. The message is a clause that says why."""


@dataclass(frozen=True)
class ToolContext:
    """The parts of a session that the function of a tool can use."""

    code: CodeSearcher
    """The project's source; files outside its folder are refused."""
    skills: SkillLibrary
    """All skills of the session."""
    loaded_skills: LoadedSkills
    """The skills that stay loaded in the session."""
    cancelled: threading.Event
    """Set when nobody waits for the result of the call any more."""

    @property
    def loaded(self) -> LoadedSkills:
        """The name of `loaded_skills` in version 0.1."""
        warnings.warn("loaded is now loaded_skills", DeprecationWarning, stacklevel=2)
        return self.loaded_skills


class Tool(NamedTuple):
    """A function that a model can call."""

    function: Callable[[ToolContext, Any], str]
    """Does the tool's work, and returns the result for the model. Raises `ToolError`. The function's
    name is the tool's name, and its docstring the description for models."""
    arguments: type[BaseModel]
    """The schema of the arguments."""
    also: str = ""
    """A second name of the tool's function in the namespace; empty for none."""

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tool's function in the namespace."""
        return (self.name, self.also) if self.also else (self.name,)

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or ""

    def call(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        """Check the arguments and run the tool. Raises `ToolError` for any error."""
        try:
            validated_arguments = self.arguments.model_validate(dict(arguments))
            return str(self.function(context, validated_arguments))
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
            raise ToolError(f"{self.name} failed: {format_error(error)}") from error

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

    def validate(self) -> None:
        """Check the definition. A package may have put any objects into the fields.

        Raises:
            InvalidTool: The definition is wrong.
            Exception: The function for the namespace cannot be made.
        """
        function: object = self.function
        arguments: object = self.arguments
        if not callable(function):
            raise InvalidTool("its function cannot be called")
        if not isinstance(getattr(function, "__name__", None), str):
            raise InvalidTool("its function has no name")
        if not (isinstance(arguments, type) and issubclass(arguments, BaseModel)):
            raise InvalidTool("its arguments are not a pydantic model")

        for name in (*self.names, *arguments.model_fields):
            if not name.isidentifier() or keyword.iskeyword(name):
                raise InvalidTool(f"the name {name!r} is not valid in Python")
        if not self.description:
            raise InvalidTool("its function has no docstring")
        for host_function in self.host_functions():
            make_host_function(host_function._asdict())


def format_error(error: BaseException) -> str:
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
