"""Forms of answers: types such as `list[str]`, a dataclass or a pydantic model.

`form_description.describe_form` tells a model the form in words, and `answer_reading.read_as` reads
its answer as a value of it."""

from __future__ import annotations

import dataclasses
import enum
import numbers
import re
import types
import uuid
from collections import abc
from collections.abc import Callable, Hashable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

UNIONS = (Union, getattr(types, "UnionType", Union))
LIST_MAKERS: dict[Any, Callable[[Any], Any]] = {
    **dict.fromkeys((list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection), list),
    **dict.fromkeys((set, abc.Set, abc.MutableSet), set),
    frozenset: frozenset,
    tuple: tuple,
}
"""What makes a value of each form that has items."""
LIST_DATA = (list, tuple, set, frozenset)
DICTS = (dict, abc.Mapping, abc.MutableMapping)

_BOOLS = {"true": True, "yes": True, "false": False, "no": False}


class WrongForm(ValueError):
    """An answer is not in the form that was asked for. The message is a sentence for the model."""


class SimpleForm(NamedTuple):
    """A form without parts."""

    description: str
    read: Callable[[Any], object]
    """Returns the value of parsed data. May raise the errors of `READ_ERRORS`."""


class FormField(NamedTuple):
    """A field of a dataclass, a named tuple or a typed dict."""

    name: str
    form: Any
    is_required: bool


READ_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
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


_SIMPLE_FORMS: dict[Any, SimpleForm] = {
    str: SimpleForm("a string", _instance_reader(str)),
    int: SimpleForm("an integer", _read_int),
    float: SimpleForm("a number", _read_float),
    Decimal: SimpleForm("a number", _read_decimal),
    bool: SimpleForm("true or false", _read_bool),
    bytes: SimpleForm("a string", _read_bytes),
    type(None): SimpleForm("null", _instance_reader(type(None))),
    Any: SimpleForm("any JSON", _read_anything),
    object: SimpleForm("any JSON", _read_anything),
    date: SimpleForm("a date such as 2026-03-01", _read_date),
    datetime: SimpleForm("a time such as 2026-03-01T12:00:00", _read_datetime),
    time: SimpleForm("a time such as 12:00:00", time.fromisoformat),
    uuid.UUID: SimpleForm("a UUID", uuid.UUID),
    Path: SimpleForm("a path", Path),
}


def simple_form(form: object) -> SimpleForm | None:
    """Return how a type without parts is described and read; None for other types."""
    if simple := _SIMPLE_FORMS.get(form):
        return simple
    if isinstance(form, type) and form.__module__ == "numpy":
        scalar: Any = form
        if issubclass(form, numbers.Integral):
            description = _SIMPLE_FORMS[int].description
            return SimpleForm(description, lambda data: scalar(_read_int(data)))
        if issubclass(form, numbers.Real):
            description = _SIMPLE_FORMS[float].description
            return SimpleForm(description, lambda data: scalar(_read_number(data)))
    return None


# Forms with parts


def is_container(form: object) -> bool:
    """Return whether values of a form are lists or dicts."""
    bare_form = strip_annotations(form)
    origin = get_origin(bare_form) or bare_form
    return isinstance(origin, Hashable) and (origin in LIST_MAKERS or origin in DICTS)


def strip_annotations(form: object) -> object:
    """Return the type within `Annotated`, `Required` and the like, and what an alias stands for."""
    if form is None:
        return type(None)
    origin = get_origin(form)
    if origin is Annotated or getattr(origin, "_name", "") in ("Required", "NotRequired"):
        return strip_annotations(get_args(form)[0])
    for name in ("__supertype__", "__value__"):
        if not isinstance(form, type) and hasattr(form, name):
            return strip_annotations(getattr(form, name))
    return form


def find_choices(form: object) -> dict[Any, list[Any]]:
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


def has_fixed_length(form: object) -> bool:
    """Return whether a form is a tuple with a form for each item, such as ``tuple[int, str]``."""
    item_forms = get_args(form)
    return get_origin(form) is tuple and bool(item_forms) and item_forms[-1] is not ...


def form_fields(form: object) -> list[FormField]:
    """Return the fields of a form. Raises `TypeError` if it is not a class with declared fields."""
    if not isinstance(form, type):
        raise unsupported_form(form)
    try:
        forms = get_type_hints(form, include_extras=True)
    except NameError:  # a name in a function that has ended
        raise unsupported_form(form) from None
    return [
        FormField(name, forms.get(name, Any), is_required)
        for name, is_required in _required_fields(form, forms).items()
    ]


def _required_fields(form: type, forms: Mapping[str, object]) -> dict[str, bool]:
    """Return whether each field of a class must be given. Raises `TypeError` if it declares none.

    Args:
        form: The class.
        forms: The forms of its fields.
    """
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
    raise unsupported_form(form)


def _is_required_key(name: str, form: object, required_keys: frozenset[str]) -> bool:
    """Return whether a typed dict needs a key.

    Args:
        name: The key.
        form: Its annotation.
        required_keys: What the typed dict says, which does not understand string annotations.
    """
    mark = getattr(get_origin(form), "_name", "")
    if mark == "NotRequired":
        return False
    return mark == "Required" or name in required_keys


def unsupported_form(form: object) -> TypeError:
    return TypeError(
        f"returns: {form!r} cannot describe an answer. Give int, list[str], a dataclass, a pydantic model or the like."
    )
