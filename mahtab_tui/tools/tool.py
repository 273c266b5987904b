"""What a tool is: a function that a model can call, and the schema of its arguments."""

from __future__ import annotations

import ast
import inspect
import keyword
import threading
import traceback
import typing
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
