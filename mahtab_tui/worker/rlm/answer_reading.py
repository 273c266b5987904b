"""Reads an answer as a value of its form."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, get_args, get_origin

from .answer_form import (
    DICTS,
    LIST_DATA,
    LIST_MAKERS,
    READ_ERRORS,
    UNIONS,
    FormField,
    WrongForm,
    find_choices,
    form_fields,
    has_fixed_length,
    simple_form,
    strip_annotations,
)
from .form_description import describe_form

_NUMBER = re.compile(
    r"(?<![\w.,-])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.,-])-?\d+(?:\.\d+)?(?![\w,])"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of text."""
_AROUND_CHOICES = " \n.'\"`"
"""Characters around the name of a choice that are not part of it."""
_MAX_QUOTED_CHARS = 100
"""The model is shown at most this many characters of wrong data."""


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
        except RecursionError:
            first_error = first_error or WrongForm("the answer is nested too deeply")
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
        except TypeError:  # the text is a literal such as {[1]}, which has no value
            continue
    yield text.strip()


def _without_controls(data: object) -> object:
    """Return data without control characters in its strings."""
    if isinstance(data, str):
        return _CONTROLS.sub("", data)
    if isinstance(data, LIST_DATA):
        return type(data)(map(_without_controls, data))
    if isinstance(data, dict):
        return {_without_controls(name): _without_controls(value) for name, value in data.items()}
    return data


def _only_value(form: object, text: str) -> str | None:
    """Return the only number of a text, or the only choice in it; None if there is not one."""
    candidates: set[str]
    bare_form = strip_annotations(form)
    if bare_form in (int, float):
        candidates = {number.replace(",", "") for number in _NUMBER.findall(text)}
    else:
        names = {str(values[0]) for values in find_choices(bare_form).values()}
        candidates = {name for name in names if _stands_in(name, text)}
    if len(candidates) == 1:
        return candidates.pop()
    return None


def _stands_in(name: str, text: str) -> bool:
    """Return whether a name is a word of a text, in any case."""
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
    except READ_ERRORS:
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
    """Convert data as `_read` does, but also raise `READ_ERRORS` for data of another form."""
    bare_form = strip_annotations(form)
    if bare_form is not form:
        return _check_constraints(form, _read(bare_form, data, path), path)
    if simple := simple_form(form):
        return simple.read(data)

    origin = get_origin(form) or form
    if origin in UNIONS:
        return _read_union(get_args(form), data, path)
    if choices := find_choices(form):
        return _choose(choices, data)
    if origin in LIST_MAKERS:
        return LIST_MAKERS[origin](_read_items(form, data, path))
    if origin in DICTS:
        return _read_dict(form, data, path)
    return _read_object(form, data, path)


def _check_constraints(form: object, value: object, path: str) -> object:
    """Return a value that fulfils the constraints of an annotation. Raises `WrongForm` if it does
    not."""
    # Constraints need pydantic to be declared.
    if get_origin(form) is not Annotated or "pydantic" not in sys.modules:
        return value
    with _user_code(path):
        return sys.modules["pydantic"].TypeAdapter(form).validate_python(value)


def _read_union(forms: Sequence[object], data: object, path: str) -> object:
    """Read data as the first of several forms that it has. Raises `ValueError` if it has none."""

    def is_another_type(form: object) -> bool:
        return type(data) is not strip_annotations(form)

    # As in pydantic, "7" is a str for `int | str`.
    for form in sorted(forms, key=is_another_type):
        with contextlib.suppress(WrongForm):
            return _read(form, data, path)
    raise ValueError


def _choose(choices: dict[Any, list[Any]], data: object) -> object:
    """Return the choice that data names: exactly, or in another spelling if only one choice has it.
    Raises `ValueError` for other data."""
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
    """Read the items of a list, a tuple or a set."""
    if not isinstance(data, LIST_DATA):
        raise TypeError
    inner_forms = get_args(form)
    if has_fixed_length(form):
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
    """Read the keys and values of a dict."""
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

    fields = form_fields(form)
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


def _field_problems(fields: Sequence[FormField], data: dict[Any, object]) -> list[str]:
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
