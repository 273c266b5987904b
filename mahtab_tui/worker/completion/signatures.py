"""Candidates for completion, and the parameters of callables."""

from __future__ import annotations

import ast
import re
import sys
import time
import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from heapq import nsmallest
from typing import Any, Callable, NamedTuple

from ..objects import (
    BOUND,
    MISSING,
    SLOTS,
    VARARGS,
    VARKEYWORDS,
    Classes,
    class_dict,
    class_module,
    find_in_class,
    get_if_loaded,
    is_class,
    is_from,
    is_module,
    name_of,
    own_dict,
    unwrap,
)
from ..servers import OmittedArgument
from ..stdlib import late_import
from ..variables import masked_summary, one_line, summary, type_name, variable_kind

SECONDS = 0.3
"""Seconds after which the list contains only what was found so far."""

WIDTH = 100
"""Maximum characters of the line."""

_DOCUMENTED = Classes(
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
"""Types whose `__doc__` is implemented in C."""

_CHECK_EVERY = 256


class Candidate(NamedTuple):
    """A candidate for completion."""

    label: str
    """The displayed text, which is also matched with the typed text."""
    describe: Callable[[], tuple[str, str]]
    """Returns its kind and a line about it; called only for displayed candidates."""
    text: str | None = None
    """The inserted text; None for the label."""
    order: int = 1
    """Orders candidates that match equally well; the smallest comes first."""
    is_name: bool = True
    """Whether leading underscores make it private, unlike those of a key or a column."""


def fixed_description(kind: str, doc: str = "") -> Callable[[], tuple[str, str]]:
    """Return a function that returns a fixed description."""
    return lambda: (kind, doc)


def rank(candidates: Iterable[Candidate], stem: str, most: int) -> tuple[list[Candidate], int]:
    """Return the best matches for the typed text, and how many more there are. Equal labels come
    first, then those that start with it, then those with its letters in this order. Private names
    are listed if an underscore is typed, or nothing else matches; names with two underscores only
    if one is typed, after the others."""
    public = private = 0
    underscore = stem.startswith("_")

    def fitting() -> Iterator[tuple[tuple[Any, ...], int, Candidate]]:
        nonlocal public, private
        for key, candidate in _fitting(candidates, stem):
            if key[0] == 2 and not underscore:
                continue
            if key[0] and not underscore:
                private += 1
                if public:
                    continue
            else:
                public += 1
            yield key, public + private, candidate

    # Not sorted as a whole, because ten thousand live tuples would start the garbage collector,
    # which may have a large heap to traverse.
    found = nsmallest(most, fitting())
    best = {
        candidate.label: candidate
        for key, _, candidate in reversed(found)
        if underscore or not (public and key[0])
    }
    return list(best.values())[::-1], (public or private) - len(best)


def _fitting(
    candidates: Iterable[Candidate], stem: str
) -> Iterator[tuple[tuple[Any, ...], Candidate]]:
    lower = stem.lower()
    letters = re.compile(".*?".join(map(re.escape, lower)), re.DOTALL) if len(stem) > 1 else None
    deadline = time.monotonic() + SECONDS
    for count, candidate in enumerate(candidates):
        if count % _CHECK_EVERY == 0 and time.monotonic() > deadline:
            return
        label = candidate.label
        low, spread = label.lower(), 0
        if label.startswith(stem):
            fit = 0 if label == stem else 1
        elif low.startswith(lower):
            fit = 2
        else:
            found = letters.search(low) if letters is not None else None
            if found is None:
                continue
            fit, spread = 3, found.end()
        private = _private(label, stem) if candidate.is_name else 0
        yield (private, fit, spread, candidate.order, low, label), candidate


def _private(label: str, stem: str) -> int:
    underscores = 2 if label.startswith("__") else int(label.startswith("_"))
    return (
        underscores
        if not stem.startswith("_")
        else int(underscores == 2 and not stem.startswith("__"))
    )


def value_candidate(name: str, value: Any) -> Candidate:
    return Candidate(name, lambda: describe(name, value))


def describe(name: str, value: Any) -> tuple[str, str]:
    """Return the kind of a name's value (function, class, module, property, data) and a line about
    it."""
    if type(value) in BOUND:
        value = value.__func__
    if type(value) is property:
        return "property", doc_line(value.fget)
    if type(value) is get_if_loaded("functools", "cached_property"):
        return "property", doc_line(own_dict(value).get("func"))
    if type(value) in SLOTS:
        return "property", doc_line(value)
    kind = variable_kind(value)
    if kind == "data":
        return kind, one_line(f"{type_name(value)}  {masked_summary(name, value)}".rstrip(), WIDTH)
    about = summary(value) if kind == "function" else ""
    return kind, one_line(f"{about}  {doc_line(value)}".strip(), WIDTH)


def get_doc(value: Any) -> str:
    """Return the docstring if it is a plain string, without running user code."""
    if type(value) is types.MethodType:
        value = value.__func__
    if is_class(value):
        doc = class_dict(value).get("__doc__")
    elif is_module(value):
        doc = own_dict(value).get("__doc__")
    elif type(value) in _DOCUMENTED:
        doc = value.__doc__
    else:
        doc = None
    return doc if type(doc) is str else ""


def doc_line(value: Any) -> str:
    """Return the first line of the docstring."""
    return one_line(get_doc(value).strip().split("\n", 1)[0].strip(), WIDTH)


_CONTAINERS = Classes(list, tuple, dict, set)
_KEYWORD = re.compile(r"[(,]\s*([a-z_]\w*)=")
_USAGE = 1_000
"""Characters of a docstring to search for keyword arguments."""
BUILT_IN = Classes(
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
)
"""Types of functions written in C."""
_PLAIN = Classes(int, float, complex, bool, str, bytes, type(None))


class Parameter(NamedTuple):
    """A parameter as written."""

    name: str
    text: str
    """Including stars, annotation and default."""
    keyword: bool
    """Whether it can be passed by name."""


def function_of(value: Any) -> tuple[Any, int]:
    """Return the Python function that a call runs (None if there is none), and how many of its
    first parameters are already bound."""
    if type(value) is get_if_loaded("functools", "partial"):
        function, bound = function_of(value.func)
        return function, bound + len(value.args)
    if type(value) is types.MethodType:
        return unwrap(value.__func__), 1
    if type(value) in BOUND:
        return unwrap(value.__func__), int(type(value) is classmethod)
    if type(value) is types.FunctionType:
        return unwrap(value), 0
    if is_class(value):
        for name in ("__init__", "__new__"):
            found = find_in_class(value, name)
            if type(found) is staticmethod:
                found = found.__func__
            if type(found) is types.FunctionType:
                return unwrap(found), 1
        return None, 0
    wrapped = own_dict(value).get("__wrapped__")  # of one of numpy's functions
    if class_module(type(value)) == "numpy" and type(wrapped) is types.FunctionType:
        return unwrap(wrapped), 0
    found = find_in_class(type(value), "__call__")
    return (unwrap(found), 1) if type(found) is types.FunctionType else (None, 0)


def parameters(function: types.FunctionType, bound: int = 0) -> list[Parameter]:
    """Return the parameters that the caller passes."""
    code = function.__code__
    positional, only = code.co_argcount, code.co_posonlyargcount
    names = code.co_varnames
    defaults = function.__defaults__ or ()
    first_default = positional - len(defaults)
    found = []
    for index in range(bound, positional):
        default = defaults[index - first_default] if index >= first_default else MISSING
        found.append(
            Parameter(names[index], _written(function, names[index], default), index >= only)
        )
        if index == only - 1:
            found.append(Parameter("/", "/", keyword=False))
    end = positional + code.co_kwonlyargcount
    if code.co_flags & VARARGS:
        found.append(Parameter(names[end], "*" + names[end], keyword=False))
    elif code.co_kwonlyargcount:
        found.append(Parameter("*", "*", keyword=False))
    given = function.__kwdefaults__ or {}
    for name in names[positional:end]:
        found.append(
            Parameter(name, _written(function, name, given.get(name, MISSING)), keyword=True)
        )
    if code.co_flags & VARKEYWORDS:
        name = names[end + bool(code.co_flags & VARARGS)]
        found.append(Parameter(name, "**" + name, keyword=False))
    return found


def builtin_keywords(value: Any) -> list[str]:
    """Return the keyword arguments of a function written in C, from its signature or
    documentation."""
    if type(value) is types.MethodType:
        value = value.__func__
    if type(value) not in BUILT_IN and type(value) is not type:
        return []
    signature = value.__text_signature__
    if type(signature) is str:
        with suppress(SyntaxError, ValueError, RecursionError):
            parsed = ast.parse(f"def f{signature.replace('$', '')}: ...").body[0]
            if isinstance(parsed, ast.FunctionDef):
                return [
                    each.arg
                    for each in parsed.args.args + parsed.args.kwonlyargs
                    if each.arg not in ("self", "cls", "type")
                ]
    doc = class_dict(value).get("__doc__") if is_class(value) else value.__doc__
    usage = doc[:_USAGE].partition("\n\n")[0] if type(doc) is str else ""
    return list(dict.fromkeys(_KEYWORD.findall(usage)))


def instance_names(cls: type) -> list[str]:
    """Return the attributes set by a class's `__init__`, from its bytecode."""
    function = find_in_class(cls, "__init__")
    if type(function) is not types.FunctionType:
        return []
    code = function.__code__
    found = list(late_import("dis").get_instructions(code))
    owner = code.co_varnames[0] if code.co_argcount else ""
    return [
        one.argval
        for before, one in zip(found, found[1:])
        if one.opname == "STORE_ATTR" and owner in _loaded_by(before)
    ]


def _loaded_by(instruction: Any) -> tuple[Any, ...]:
    """Return the variables that an instruction loads; from Python 3.13 on, there may be two."""
    loaded_names = instruction.argval
    return loaded_names[-1:] if type(loaded_names) is tuple else (loaded_names,)


def annotations_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the annotations; from Python 3.14 on as strings, because reading their values would
    run code; empty if they cannot be read."""
    try:
        if sys.version_info >= (3, 14):
            library = late_import("annotationlib")
            return dict(library.get_annotations(function, format=library.Format.STRING))
        return function.__annotations__
    except Exception:  # raised by an expression of the user's
        return {}


def _written(function: types.FunctionType, name: str, default: Any) -> str:
    annotation = annotations_of(function).get(name, MISSING)
    text = name if annotation is MISSING else f"{name}: {format_annotation(annotation)}"
    if default is MISSING:
        return text
    equals = "=" if annotation is MISSING else " = "
    return f"{text}{equals}{_format_default(default)}"


def format_annotation(annotation: Any) -> str:
    """Format an annotation as far as possible without running code."""
    if type(annotation) is str:
        return one_line(annotation)
    if is_class(annotation):
        return one_line(name_of(annotation))
    if annotation is None:
        return "None"
    if _is_plain(annotation):
        return one_line(repr(annotation))
    origin, arguments = split_generic(annotation)
    if "__metadata__" in own_dict(annotation):
        return format_annotation(origin)
    if origin is MISSING or origin is get_if_loaded("typing", "Union"):
        return one_line(" | ".join(map(format_annotation, arguments)) or type_name(annotation))
    return one_line(f"{format_annotation(origin)}[{', '.join(map(format_annotation, arguments))}]")


def _is_plain(annotation: Any) -> bool:
    """Return whether the `repr` of an annotation, and of everything in it, is the interpreter's
    own."""
    if is_class(annotation):
        module = class_module(annotation)
        return type(annotation) is type or (
            module == "collections.abc" and get_if_loaded(module, name_of(annotation)) is annotation
        )
    if type(annotation) in _PLAIN or annotation is Ellipsis:
        return True
    if not is_from(annotation, "typing", "types") or "__metadata__" in own_dict(annotation):
        return False
    origin, arguments = split_generic(annotation)
    return (origin is MISSING or _is_plain(origin)) and all(map(_is_plain, arguments))


def split_generic(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Split a type such as ``list[int]`` into the class and the contents of its brackets."""
    if type(annotation) is types.GenericAlias:
        return annotation.__origin__, annotation.__args__
    if type(annotation) is getattr(types, "UnionType", None):
        return MISSING, annotation.__args__
    names = own_dict(annotation) if is_from(annotation, "typing") else {}
    arguments = names.get("__args__")
    return names.get("__origin__", MISSING), arguments if type(arguments) is tuple else ()


def _format_default(default: Any) -> str:
    if type(default) in _PLAIN:
        return one_line(repr(default), 40)
    if type(default) is OmittedArgument:
        return one_line(default.shown, 40)
    if type(default) in _CONTAINERS and not default:
        return repr(default)
    return one_line(default.__name__) if type(default) is type else "…"
