"""The children of an object, short texts of their values, and paths to them.

The steps of a path; the first five kinds only start one:

    ["name", "df"]                           a variable
    ["name", "df", 1402]                     a variable, only while it is the object with this `id`
    ["computed", 7]                          a computed value, kept until its screen closes
    ["shown", "3f…"]                         the value of a displayed table
    ["frame", 4, "In [4]", 3, "f", 0, 1]     the variables of a frame (see `frame_locals`)
    ["item", 3]                              an item of a container, by position
    ["attribute", "x"]                       an attribute
    ["column", 2], ["cell", 10, 2]           a column, or a cell, of a table
    ["slice", [0, null]]                     a part of an array; null keeps a dimension
"""

from __future__ import annotations

import collections
import keyword
import os
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from ..cells.tracebacks import CELL, cell_filename
from ..values.displays import shown_table
from ..values.objects import (
    MISSING,
    SCALARS,
    Classes,
    as_library_type,
    attribute,
    class_dict,
    copy_text_keys,
    is_class,
    is_module,
    mro_of,
    own_dict,
)
from ..values.variables import (
    HIDDEN_VALUE,
    SUMMARY_CHARS,
    format_count,
    is_hidden,
    looks_secret,
    masked_summary,
    one_line,
    safe_length,
    summary,
    type_name,
    variable_kind,
)
from .arrays import slice_array
from .columns import InspectionError
from .tables import as_table

# Short texts of values

SEQUENCES = Classes(list, tuple, set, frozenset, collections.deque)
SAMPLED_CHILDREN = 100

_MAX_ITEMS = 8
_TEXT_WIDTH = 60
_KEY_WIDTH = 40
_LABEL_WIDTH = 80
_MAX_FIELDS = 6
_FIELD_WIDTH = 24

_SEQUENCES = Classes(list, tuple, range)
_CONTAINERS = Classes(
    *(list, tuple, set, frozenset, dict, range, collections.deque),
    *(type({}.keys()), type({}.values()), type({}.items())),
)
_COMPUTED = Classes(property, types.GetSetDescriptorType)
"""Only code can compute their values."""
_OWN = Classes(property, types.MemberDescriptorType)

_WRITTEN = Classes(str, bytes, type(None))
"""Keys that, like numbers, can be written as literals."""
_MAX_KEY_CHARS = 1000

_MAX_ERRORS = 100


def short_value(value: Any, name: Any = "") -> str:
    """Format a value. name: its key or attribute, which may be that of a secret."""
    if type(name) is str and looks_secret(name):
        if is_hidden(name, value):
            return HIDDEN_VALUE
        return _describe_size(value)
    cls = type(value)
    if cls is str:
        return literal(value, _TEXT_WIDTH)
    if cls is dict:
        items = list(islice(value.items(), _MAX_ITEMS))
        words = [f"{short_key(key)}: {_describe_size(item)}" for key, item in items]
        return f"{{{_join(words, len(value))}}}"
    if cls in SEQUENCES:
        return _short_sequence(value)
    return (cls in SCALARS and summary(value)) or describe_type(value)


def _join(words: list[str], count: int) -> str:
    listed_words = words[:_MAX_ITEMS]
    return ", ".join([*listed_words, "..."] if count > len(listed_words) else listed_words)


def _short_sequence(value: Any) -> str:
    size = len(value)
    sample = list(islice(value, SAMPLED_CHILDREN))
    if size <= _MAX_ITEMS and all(type(item) in SCALARS for item in sample):
        text = ", ".join(map(short_value, sample))
        if len(text) <= _TEXT_WIDTH:
            return f"[{text}]"
    kinds = describe_types(sample)
    if kinds == "dict" and all(type(item) is dict for item in sample):
        keys = dict.fromkeys(short_key(key) for item in sample for key in islice(item, _MAX_ITEMS))
        kinds = f"dict with keys {_join(list(keys), len(keys))}"
    # The types of the others are unknown.
    ellipsis_text = ", …" if size > len(sample) else ""
    return f"[{kinds}{ellipsis_text}] x {size:,}"


def short_key(key: Any) -> str:
    if type(key) is str:
        return literal(key, _KEY_WIDTH)
    if type(key) is tuple:
        return f"({', '.join(map(short_key, key))})"
    if type(key) in SCALARS:
        return _key_label(key)
    return describe_type(key)


def literal(text: str, width: int) -> str:
    """Write a string as a Python literal, perhaps truncated."""
    if len(text) <= width:
        return repr(text)
    written = repr(text[:width])
    return f"{written[:-1]}…{written[-1]}"


def describe_type(value: Any) -> str:
    kind = variable_kind(value)
    if kind != "data":
        return f"<{kind}>"
    words = summary(value)
    if words:
        return f"<{type_name(value)} {words}>"
    return f"<{type_name(value)}>"


def describe_types(sample: Iterable[Any]) -> str:
    """Describe the types of some objects, as in ``int or str``."""
    names = list(dict.fromkeys(map(type_name, sample)))
    return " or ".join([*names[:3], *(["others"] if len(names) > 3 else [])])


def _describe_size(value: Any) -> str:
    cls = type(value)
    if cls is dict or cls in SEQUENCES:
        return f"{type_name(value)} of {len(value):,}"
    if cls in SCALARS:
        return type_name(value)
    return describe_type(value)


def stored_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public attributes of an object, from its ``__dict__`` and ``__slots__``."""
    names = copy_text_keys(own_dict(value))
    for base in mro_of(type(value)):
        if "__slots__" in class_dict(base):
            slots = copy_text_keys(class_dict(base)).items()
            names.update((n, 0) for n, item in slots if type(item) is types.MemberDescriptorType)
    for label in names:
        if label.startswith("_"):
            value_of_label = MISSING
        else:
            value_of_label = stored_attribute(value, label)
        if value_of_label is not MISSING:
            yield label, value_of_label


def fields(value: Any) -> str:
    """Format the first fields of an object, as in ``(id=7, total=3.5)``; empty if it has none."""
    words: list[str] = []
    available_width = SUMMARY_CHARS - len("(…)")
    for label, item in stored_fields(value):
        text = one_line(short_value(item, label), _FIELD_WIDTH + 1)
        if len(text) > _FIELD_WIDTH:
            is_text = type(item) is str
            if is_text:
                text = format_count(len(item), "chars")
            else:
                text = type_name(item)
        words.append(f"{one_line(label, _FIELD_WIDTH)}={text}")
        available_width -= len(words[-1]) + len(", ")
        if available_width < 0 or len(words) > _MAX_FIELDS:
            words[-1] = "…"
            break
    return f"({', '.join(words)})" if words else ""


# Children


class Child(NamedTuple):
    step: list[Any]
    label: str
    value: Any
    """`MISSING` for a property, because getting it would run code."""
    key: Any = None


def container_class(value: object) -> Any:
    return next((base for base in mro_of(type(value)) if base in _CONTAINERS), None)


def count_children(value: Any) -> int:
    base = container_class(value)
    if base is None:
        return len(_attribute_names(value))
    if base is range:  # may be too long for `len`
        if not value:
            return 0
        return int((value[-1] - value[0]) // value.step + 1)
    length = safe_length(value)
    if length is None:
        return int(base.__len__(value))
    return length


def list_children(value: Any, start: int, stop: int) -> list[Child]:
    """Raises `InspectionError` if a container changes meanwhile."""
    base = container_class(value)
    if base is None:
        return [_attribute(value, name) for name in _attribute_names(value)[start:stop]]
    names = {}
    if base is tuple:
        names = dict(enumerate(field_names(type(value))))
    try:
        if base is dict:
            entries = enumerate(islice(dict.items(value), start, stop), start)
            return [Child(["item", at], _key_label(key), item, key) for at, (key, item) in entries]
        if base in _SEQUENCES:
            items = base.__getitem__(value, slice(start, stop))
        else:
            items = islice(base.__iter__(value), start, stop)
        entries = enumerate(items, start)
        return [Child(["item", at], names.get(at, str(at)), item) for at, item in entries]
    except RuntimeError:
        raise InspectionError("The object changed while it was read; press r to reload.") from None


def describe_child(child: Child, above: Iterable[object]) -> dict[str, Any]:
    """above: the objects on the path to it, which may include the child."""
    value = child.value
    row = {"step": child.step, "label": child.label, "kind": "data", "count": 0, "state": ""}
    if value is MISSING:
        return {**row, "type": "property", "summary": "(…)", "state": "property"}
    about = masked_summary(child.label, value)
    row.update(
        type=type_name(value),
        summary=_quote(value) if type(value) is str and about != HIDDEN_VALUE else about,
        kind=variable_kind(value),
    )
    if row["kind"] == "data" and type(value) not in SCALARS:
        if any(value is ancestor for ancestor in above):
            row["state"] = "cycle"
        else:
            row["count"] = count_children(value)
    return row


def _quote(text: str) -> str:
    return f"'{one_line(text, _LABEL_WIDTH)}'"


def _key_label(key: Any) -> str:
    if type(key) is str:
        return _quote(key)
    return one_line(summary(key) or type_name(key), _LABEL_WIDTH)


def field_names(cls: type) -> tuple[str, ...]:
    for base in mro_of(cls):
        names = class_dict(base).get("_fields")
        if type(names) is tuple and all(type(name) is str for name in names):
            return names
    return ()


def _attribute_names(value: Any) -> list[str]:
    if is_module(value) or is_class(value):
        names = copy_text_keys(class_dict(value) if is_class(value) else own_dict(value))
        return [name for name in names if not name.startswith("__")]
    names = copy_text_keys(own_dict(value))
    for base in mro_of(type(value)):
        for name, item in copy_text_keys(class_dict(base)).items():
            if type(item) in _OWN and not name.startswith("__"):
                names[name] = None
    return list(names)


def _attribute(value: object, name: str) -> Child:
    return Child(["attribute", name], name, stored_attribute(value, name))


def stored_attribute(value: object, name: str) -> Any:
    """Return an attribute as stored; `MISSING` if only code can compute it."""
    stored_value = attribute(value, name)
    if type(stored_value) in _COMPUTED:
        return MISSING
    return stored_value


# Paths


class ComputedValue(NamedTuple):
    value: Any
    expression: str


class ResolvedObject(NamedTuple):
    objects: list[Any]
    """The last one is the target."""
    expression: str
    path: list[Any]
    """Valid only while the variable is the same object."""

    @property
    def target(self) -> Any:
        return self.objects[-1]

    @property
    def library_value(self) -> Any:
        return as_library_type(self.objects[-1])


def resolve_path(
    path: Sequence[Sequence[Any]], namespace: dict[str, Any], computed: dict[int, ComputedValue]
) -> ResolvedObject:
    """Raises `InspectionError` if the path is no longer valid."""
    start_step, *further_steps = path
    value, expression = _start(start_step, namespace, computed)
    objects = [value]
    for step in further_steps:
        value, code = _follow(value, step)
        if expression and code is not None:
            expression = f"{expression}{code}"
        else:
            expression = ""
        objects.append(value)
    start = start_step
    if start_step[0] == "name":
        start = ["name", start_step[1], id(objects[0])]
    return ResolvedObject(objects, expression, [start, *further_steps])


def _start(
    step: Sequence[Any], namespace: dict[str, Any], computed: dict[int, ComputedValue]
) -> tuple[Any, str]:
    """Return the object, and code for it."""
    kind, name, *arguments = step
    if kind == "frame":
        return frame_locals(name, *arguments), ""
    if kind == "computed":
        if name not in computed:
            raise InspectionError("This value is no longer kept; open it again.")
        return computed[name]
    if kind == "shown":
        target = shown_table(name)
        if target is None:
            raise InspectionError("The value of this table is no longer kept; run the cell again.")
        names = (other_name for other_name, value in dict.items(namespace) if value is target)
        return target, next(
            (
                other_name
                for other_name in names
                if type(other_name) is str and _is_name(other_name)
            ),
            "",
        )
    if name not in namespace:
        raise InspectionError(f"There is no variable named {name}.")
    target = namespace[name]
    if arguments and arguments[0] != id(target):
        raise InspectionError(f"{name} is now a different object; press r to reload.")
    return target, name if _is_name(name) else f"globals()[{name!r}]"


def _follow(value: Any, step: Sequence[Any]) -> tuple[Any, str | None]:
    """Return the object, and code to append to that of `value`, if known."""
    kind = step[0]
    at = step[1]
    if kind == "item":
        children = list_children(value, at, at + 1)
        if not children:
            raise InspectionError("This item no longer exists.")
        return children[0].value, _item_code(value, at, children[0].key)
    if kind == "attribute":
        stored_value = stored_attribute(value, at)
        if stored_value is MISSING:
            raise InspectionError(f"The attribute {at} no longer exists.")
        return stored_value, f".{at}" if _is_name(at) else None
    if kind == "slice":
        written = ", ".join(":" if index is None else str(index) for index in at)
        return slice_array(as_library_type(value), at), "" if set(at) == {None} else f"[{written}]"
    table = as_table(as_library_type(value))
    column = step[-1]
    if table is None or not 0 <= column < table.columns:
        raise InspectionError("This part of the table no longer exists.")
    if kind == "column":
        return table.series(column), table.expression(column) or None
    if not 0 <= at < table.rows:
        raise InspectionError("This part of the table no longer exists.")
    return table.column(column).value(at), table.cell_expression(at, column) or None


def _item_code(value: Any, position: int, key: Any) -> str | None:
    base = container_class(value)
    if base is dict:
        if _can_be_written(key):
            return f"[{key!r}]"
        return None
    by_position = base in _SEQUENCES or base is collections.deque
    return f"[{position}]" if by_position else None


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _can_be_written(key: Any) -> bool:
    if type(key) is float:
        return key - key == 0
    if type(key) is int or type(key) is bool:
        return key.bit_length() < _MAX_KEY_CHARS
    return type(key) in _WRITTEN and (key is None or len(key) < _MAX_KEY_CHARS)


_CAUSE, _CONTEXT, _SUPPRESSED, _TRACEBACK = (
    BaseException.__dict__[name]
    for name in ("__cause__", "__context__", "__suppress_context__", "__traceback__")
)


def frame_locals(
    cell: int, file: str, line: int, function: str, frame_index: int, of: int
) -> dict[str, Any]:
    """Return the variables of a frame of a cell's error. frame_index: among the `of` frames at this
    line of this function. Raises `InspectionError`."""
    error = getattr(sys, "last_value", None)
    errors = []
    if isinstance(error, BaseException):
        errors = _exception_chain(error)
    files = []
    if errors:
        files = [frame.f_code.co_filename for frame, _ in _frames(errors[-1])]
    if next((name for name in files if name.startswith(CELL)), "") != cell_filename(cell):
        raise InspectionError(
            "The variables are gone: other code has failed since, or the kernel was restarted."
        )
    if function == "<module>":
        raise InspectionError("The variables of this frame are those of the namespace.")
    matching_frames = [
        frame
        for chained_error in errors
        for frame, number in _frames(chained_error)
        if number == line
        and frame.f_code.co_name == function
        and file in (frame.f_code.co_filename, os.path.abspath(frame.f_code.co_filename))
    ]
    if len(matching_frames) != of:
        raise InspectionError(
            "The variables are unknown: the same line occurs in the error more often than shown."
        )
    variables = matching_frames[frame_index].f_locals
    if isinstance(variables, dict):
        return dict(dict.items(variables))
    # From Python 3.13 on.
    if type(variables).__name__ == "FrameLocalsProxy" and type(variables).__module__ == "builtins":
        return dict(variables)
    raise InspectionError("The variables are in a custom mapping, whose code is not run here.")


def _exception_chain(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and len(chain) < _MAX_ERRORS and id(error) not in map(id, chain):
        chain.append(error)
        cause = _CAUSE.__get__(error)
        suppressed = cause is not None or _SUPPRESSED.__get__(error)
        error = cause if suppressed else _CONTEXT.__get__(error)
    return chain[::-1]


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    traceback: TracebackType | None = _TRACEBACK.__get__(error)
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
