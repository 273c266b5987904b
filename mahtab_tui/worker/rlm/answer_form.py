"""Forms of answers: types such as `list[str]`, a dataclass or a pydantic model.

A model is told the form in words (`describe_form`), and its answer is read as a value of it
(`read_as`)."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import json
import numbers
import re
import sys
import types
import uuid
from collections import abc
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

_UNIONS = (Union, getattr(types, "UnionType", Union))
_LISTS: dict[Any, Callable[[Any], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection), list),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
    tuple: tuple,
}
"""What makes a value of each form that has items."""
_LIST_DATA = (list, tuple, set, frozenset)
_DICTS = (dict, abc.Mapping, abc.MutableMapping)

_NUMBER = re.compile(
    r"(?<![\w.,-])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.,-])-?\d+(?:\.\d+)?(?![\w,])"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_AROUND_CHOICES = " \n.'\"`"
"""Characters around the name of a choice that are not part of it."""
_BOOLS = {"true": True, "yes": True, "false": False, "no": False}
_MAX_QUOTED_CHARS = 100
"""Characters of wrong data that the model is shown."""


class WrongForm(ValueError):
    """The message is a sentence for the model."""


class _SimpleForm(NamedTuple):
    """A form without parts."""

    description: str
    read: Callable[[Any], object]
    """Returns the value of parsed data. May raise the errors of `_READ_ERRORS`."""


class _Field(NamedTuple):
    """A field of a dataclass, a named tuple or a typed dict."""

    name: str
    form: Any
    is_required: bool


_READ_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What reading data of another form raises."""

# Forms without parts


def _instance_reader(kind: type) -> Callable[[Any], object]:
    """Return a reader of data that are of a type already."""

    def read(data: object) -> object:
        if not isinstance(data, kind):
            raise TypeError
        return data

    return read


def _read_number(data: object) -> Any:
    if isinstance(data, bool) or not isinstance(data, (int, float, str)):
        raise TypeError
    return data


def _read_int(data: object) -> int:
    if isinstance(data, float) and not data.is_integer():
        raise ValueError
    return int(_read_number(data))


def _read_float(data: object) -> float:
    return float(_read_number(data))


def _read_decimal(data: object) -> Decimal:
    return Decimal(str(_read_number(data)).strip())


def _read_bool(data: Any) -> bool:
    if isinstance(data, bool):
        return data
    return _BOOLS[data.strip().casefold()]


def _read_date(data: str) -> date:
    moment = _read_datetime(data)
    if moment.time() != time():
        raise ValueError
    return moment.date()


def _read_datetime(data: str) -> datetime:
    return datetime.fromisoformat(re.sub("[zZ]$", "+00:00", data))


def _read_bytes(data: Any) -> bytes:
    if isinstance(data, bytes):
        return data
    encoded: bytes = data.encode("utf-8", "surrogatepass")
    return encoded


def _read_anything(data: object) -> object:
    return data


_SIMPLE_FORMS: dict[Any, _SimpleForm] = {
    str: _SimpleForm("a string", _instance_reader(str)),
    int: _SimpleForm("an integer", _read_int),
    float: _SimpleForm("a number", _read_float),
    Decimal: _SimpleForm("a number", _read_decimal),
    bool: _SimpleForm("true or false", _read_bool),
    bytes: _SimpleForm("a string", _read_bytes),
    type(None): _SimpleForm("null", _instance_reader(type(None))),
    Any: _SimpleForm("any JSON", _read_anything),
    object: _SimpleForm("any JSON", _read_anything),
    date: _SimpleForm("a date such as 2026-03-01", _read_date),
    datetime: _SimpleForm("a time such as 2026-03-01T12:00:00", _read_datetime),
    time: _SimpleForm("a time such as 12:00:00", time.fromisoformat),
    uuid.UUID: _SimpleForm("a UUID", uuid.UUID),
    Path: _SimpleForm("a path", Path),
}


def _simple_form(form: object) -> _SimpleForm | None:
    """Return how a type without parts is described and read; None for other types."""
    if simple := _SIMPLE_FORMS.get(form):
        return simple
    if isinstance(form, type) and form.__module__ == "numpy":
        scalar: Any = form
        if issubclass(form, numbers.Integral):
            description = _SIMPLE_FORMS[int].description
            return _SimpleForm(description, lambda data: scalar(_read_int(data)))
        if issubclass(form, numbers.Real):
            description = _SIMPLE_FORMS[float].description
            return _SimpleForm(description, lambda data: scalar(_read_number(data)))
    return None


# Forms with parts


def is_container(form: object) -> bool:
    """Return whether values of a form are lists or dicts."""
    bare_form = _strip_annotations(form)
    origin = get_origin(bare_form) or bare_form
    return isinstance(origin, Hashable) and (origin in _LISTS or origin in _DICTS)


def _strip_annotations(form: object) -> object:
    """Return the type within `Annotated`, `Required` and the like, and what an alias stands for."""
    if form is None:
        return type(None)
    origin = get_origin(form)
    if origin is Annotated or getattr(origin, "_name", "") in ("Required", "NotRequired"):
        return _strip_annotations(get_args(form)[0])
    for name in ("__supertype__", "__value__"):
        if not isinstance(form, type) and hasattr(form, name):
            return _strip_annotations(getattr(form, name))
    return form


def _choices(form: object) -> dict[Any, list[Any]]:
    """Return the values of an enum or a `Literal`, each with how an answer may give it; none for
    other forms."""
    if get_origin(form) is Literal:
        return {
            choice: [choice.value if isinstance(choice, enum.Enum) else choice]
            for choice in get_args(form)
        }
    if isinstance(form, type) and issubclass(form, enum.Enum):
        return {choice: [choice.value, choice.name] for choice in form}
    return {}


def _has_fixed_length(form: object) -> bool:
    """Return whether a form is a tuple with a form for each item, such as ``tuple[int, str]``."""
    item_forms = get_args(form)
    return get_origin(form) is tuple and bool(item_forms) and item_forms[-1] is not ...


def _fields(form: object) -> list[_Field]:
    """Return the fields of a form. Raises `TypeError` if it is not a class with declared fields."""
    if not isinstance(form, type):
        raise _unsupported_form(form)
    try:
        forms = get_type_hints(form, include_extras=True)
    except NameError:  # a name in a function that has ended
        raise _unsupported_form(form) from None
    return [
        _Field(name, forms.get(name, Any), is_required)
        for name, is_required in _required_fields(form, forms).items()
    ]


def _required_fields(form: type, forms: Mapping[str, object]) -> dict[str, bool]:
    """Return whether each field of a class must be given. forms: those of its fields."""
    if dataclasses.is_dataclass(form):
        without_default = dataclasses.MISSING
        return {
            field.name: field.default is without_default
            and field.default_factory is without_default
            for field in dataclasses.fields(form)
            if field.init
        }
    if issubclass(form, tuple) and hasattr(form, "_field_defaults"):
        return {name: name not in form._field_defaults for name in forms}
    if issubclass(form, dict) and hasattr(form, "__required_keys__"):
        return {
            name: _is_required_key(name, field_form, form.__required_keys__)
            for name, field_form in forms.items()
        }
    raise _unsupported_form(form)


def _is_required_key(name: str, form: object, required_keys: frozenset[str]) -> bool:
    """required_keys: as the typed dict has them, which does not understand string annotations."""
    mark = getattr(get_origin(form), "_name", "")
    if mark == "NotRequired":
        return False
    return mark == "Required" or name in required_keys


def _unsupported_form(form: object) -> TypeError:
    return TypeError(
        f"returns: {form!r} cannot describe an answer. Give int, list[str], a dataclass, a pydantic model or the like."
    )


# Descriptions


def describe_form(form: Any, within: tuple[object, ...] = ()) -> str:
    """Describe a form for a model.

    Args:
        form: A type.
        within: The classes that contain it, which are not described again.

    Raises:
        TypeError: There is no such form.
    """
    form = _strip_annotations(form)
    origin = get_origin(form) or form
    inner_forms = get_args(form)
    if not isinstance(origin, Hashable):  # for example [int] instead of list[int]
        raise _unsupported_form(form)
    if simple := _simple_form(form):
        return simple.description
    if form in within:
        return f"another {form.__name__}"
    if origin in _UNIONS:
        return " or ".join(describe_form(inner_form, within) for inner_form in inner_forms)
    if choices := _choices(form):
        return " or ".join(json.dumps(values[0], default=str) for values in choices.values())
    if _has_fixed_length(form):
        items = [describe_form(item_form, within) for item_form in inner_forms]
        return f"[{', '.join(items)}]"
    if origin in _LISTS:
        item = describe_form(inner_forms[0], within) if inner_forms else "any JSON"
        return f"[{item}, ...]"
    if origin in _DICTS:
        key_form, value_form = inner_forms or (str, Any)
        return f"{{{describe_form(key_form, within)}: {describe_form(value_form, within)}, ...}}"
    if hasattr(form, "model_validate"):
        return f"an object by this JSON schema: {json.dumps(form.model_json_schema())}"
    return _describe_object(form, within)


def _describe_object(form: Any, within: tuple[object, ...]) -> str:
    fields = []
    for field in _fields(form):
        description = describe_form(field.form, (*within, form))
        note = "" if field.is_required else " (or left out)"
        fields.append(f"{json.dumps(field.name)}: {description}{note}")
    return f"{{{', '.join(fields)}}}"


# Reading


def read_as(form: object, text: str, *, raw: bool = False) -> object:
    """Read an answer as a value of a form.

    Args:
        form: The form.
        text: The answer.
        raw: Whether to keep control characters in strings.

    Raises:
        WrongForm: The answer does not have the form.
    """
    if form is str:
        return str(text)

    first_error: WrongForm | None = None
    for data in _parse(str(text)):
        try:
            return _read(form, data if raw else _without_controls(data), "the answer")
        except WrongForm as error:
            first_error = first_error or error
    assert first_error is not None

    # The model may have written a sentence around the value.
    only_value = _only_value(form, str(text))
    if only_value is not None:
        with contextlib.suppress(WrongForm):
            return _read(form, only_value, "the answer")
    raise first_error


def _parse(text: str) -> Iterator[object]:
    """Yield what an answer may mean: JSON, a literal of Python, and the text itself."""
    bare_text = text.strip()
    if bare_text.startswith("```") and bare_text.endswith("```"):
        bare_text = bare_text.partition("\n")[2][:-3]
    for parse in (json.loads, ast.literal_eval):
        try:
            yield parse(bare_text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    yield text.strip()


def _without_controls(data: object) -> object:
    """Return data without control characters in its strings."""
    if isinstance(data, str):
        return _CONTROLS.sub("", data)
    if isinstance(data, _LIST_DATA):
        return type(data)(map(_without_controls, data))
    if isinstance(data, dict):
        return {_without_controls(name): _without_controls(value) for name, value in data.items()}
    return data


def _only_value(form: object, text: str) -> str | None:
    """Return the only number of a text, or the only choice in it; None if there is not one."""
    candidates: set[str]
    bare_form = _strip_annotations(form)
    if bare_form in (int, float):
        candidates = {number.replace(",", "") for number in _NUMBER.findall(text)}
    else:
        names = {str(values[0]) for values in _choices(bare_form).values()}
        candidates = {name for name in names if _stands_in(name, text)}
    if len(candidates) == 1:
        return candidates.pop()
    return None


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def _read(form: Any, data: Any, path: str) -> object:
    """Read parsed data as a value of a form.

    Args:
        form: The form.
        data: The data.
        path: Where they are in the answer, as the subject of a sentence.

    Raises:
        WrongForm: The data do not have the form.
    """
    try:
        return _convert(form, data, path)
    except WrongForm:
        raise
    except _READ_ERRORS:
        raise WrongForm(f"{path} must be {describe_form(form)}, not {_quote(data)}") from None


def _quote(data: object) -> str:
    """Return data for a message, cut to a length."""
    try:
        quoted = json.dumps(data, default=repr)
    except (TypeError, ValueError, RecursionError):  # for example other keys than strings
        quoted = repr(data)
    if len(quoted) > _MAX_QUOTED_CHARS:
        return f"{quoted[:_MAX_QUOTED_CHARS]}…"
    return quoted


def _convert(form: object, data: Any, path: str) -> object:
    """As `_read`, but may also raise `_READ_ERRORS` for data of another form."""
    bare_form = _strip_annotations(form)
    if bare_form is not form:
        return _check_constraints(form, _read(bare_form, data, path), path)
    if simple := _simple_form(form):
        return simple.read(data)

    origin = get_origin(form) or form
    if origin in _UNIONS:
        return _read_union(get_args(form), data, path)
    if choices := _choices(form):
        return _choose(choices, data)
    if origin in _LISTS:
        return _LISTS[origin](_read_items(form, data, path))
    if origin in _DICTS:
        return _read_dict(form, data, path)
    return _read_object(form, data, path)


def _check_constraints(form: object, value: object, path: str) -> object:
    """Return a value as the constraints of an annotation make it."""
    # Constraints need pydantic to be declared.
    if get_origin(form) is not Annotated or "pydantic" not in sys.modules:
        return value
    with _user_code(path):
        return sys.modules["pydantic"].TypeAdapter(form).validate_python(value)


def _read_union(forms: Sequence[object], data: object, path: str) -> object:
    def is_another_type(form: object) -> bool:
        return type(data) is not _strip_annotations(form)

    # As in pydantic, "7" is a str for `int | str`.
    for form in sorted(forms, key=is_another_type):
        with contextlib.suppress(WrongForm):
            return _read(form, data, path)
    raise ValueError


def _choose(choices: dict[Any, list[Any]], data: object) -> object:
    """Return the choice that data names, exactly or, as the only one, in another spelling."""
    for choice, names in choices.items():
        if any(type(name) is type(data) and name == data for name in names):
            return choice
    plain_name = str(data).strip(_AROUND_CHOICES).casefold()
    (matching_choice,) = (
        choice
        for choice, names in choices.items()
        if plain_name in {str(name).casefold() for name in names}
    )
    return matching_choice


def _read_items(form: object, data: Any, path: str) -> list[object]:
    if not isinstance(data, _LIST_DATA):
        raise TypeError
    inner_forms = get_args(form)
    if _has_fixed_length(form):
        item_forms: Sequence[object] = inner_forms
    else:
        item_forms = [inner_forms[0] if inner_forms else Any] * len(data)
    if len(data) != len(item_forms):
        raise ValueError
    return [
        _read(item_form, item, f"{path}[{index}]")
        for index, (item_form, item) in enumerate(zip(item_forms, data))
    ]


def _read_dict(form: object, data: Any, path: str) -> dict[object, object]:
    key_form, value_form = get_args(form) or (Any, Any)
    return {
        _read(key_form, key, f"{path}, a key"): _read(value_form, value, f"{path}[{key!r}]")
        for key, value in data.items()
    }


def _read_object(form: Any, data: object, path: str) -> object:
    """Read an object of a pydantic model, or of a class with fields."""
    if hasattr(form, "model_validate"):
        with _user_code(path):
            return form.model_validate(data)

    fields = _fields(form)
    is_named_tuple = hasattr(form, "_fields")
    if is_named_tuple and isinstance(data, (list, tuple)) and len(data) <= len(fields):
        data = {field.name: item for field, item in zip(fields, data)}
    if not isinstance(data, dict):
        raise TypeError
    if problems := _field_problems(fields, data):
        raise WrongForm(f"{path}: {'; '.join(problems)}")

    values = {
        field.name: _read(field.form, data[field.name], f"{path}.{field.name}")
        for field in fields
        if field.name in data
    }
    with _user_code(path):
        return form(**values)


def _field_problems(fields: Sequence[_Field], data: dict[Any, object]) -> list[str]:
    """Return which fields are missing in data, and which do not exist."""
    problems = [
        f"{field.name!r} is missing"
        for field in fields
        if field.is_required and field.name not in data
    ]
    unknown_names = data.keys() - {field.name for field in fields}
    return problems + [f"there is no {name!r}" for name in sorted(map(str, unknown_names))]


@contextlib.contextmanager
def _user_code(path: str) -> Iterator[None]:
    """Turn what a class of the user's raises into a `WrongForm`."""
    try:
        yield
    except Exception as error:
        raise WrongForm(f"{path}: {error}") from None
