"""Describes the form of an answer in the words that a model gets.

For example, `list[tuple[str, int]]` becomes ``[[a string, an integer], ...]``, and a class becomes
``{"name": a string, "price": a number (or left out)}``. `answer_form` knows which forms there are,
and `answer_reading` reads what the model answers.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any, get_args, get_origin

from .answer_form import (
    DICTS,
    LIST_MAKERS,
    UNIONS,
    find_choices,
    form_fields,
    has_fixed_length,
    simple_form,
    strip_annotations,
    unsupported_form,
)


def describe_form(form: Any) -> str:
    """Describe a form for a model.

    Args:
        form: A type, such as `int`, `list[str]`, a dataclass or a pydantic model.

    Raises:
        TypeError: The type cannot be the form of an answer.
    """
    return _describe(form, ())


def _describe(form: Any, enclosing_classes: tuple[object, ...]) -> str:
    """Describe a form, or a part of one.

    Args:
        form: A type.
        enclosing_classes: The classes whose fields are being described. A field that is one of them
            again, such as the children of a tree, is only named.
    """
    form = strip_annotations(form)
    origin = get_origin(form) or form
    if not isinstance(origin, Hashable):  # for example [int] instead of list[int]
        raise unsupported_form(form)
    if simple := simple_form(form):
        return simple.description
    if form in enclosing_classes:
        return f"another {form.__name__}"
    if choices := find_choices(form):
        return _describe_choices(choices)
    if origin in UNIONS:
        return " or ".join(_describe(member, enclosing_classes) for member in get_args(form))
    if origin in LIST_MAKERS:
        return _describe_list(form, enclosing_classes)
    if origin in DICTS:
        return _describe_dict(form, enclosing_classes)
    if hasattr(form, "model_validate"):
        return f"an object by this JSON schema: {json.dumps(form.model_json_schema())}"
    return _describe_class(form, enclosing_classes)


def _describe_choices(choices: dict[Any, list[Any]]) -> str:
    """Describe an enum or a `Literal`, for example ``"low" or "high"``."""
    # The first way to give a choice is its value. The others, such as the name of a member of an
    # enum, are read but not offered.
    return " or ".join(json.dumps(values[0], default=str) for values in choices.values())


def _describe_list(form: Any, enclosing_classes: tuple[object, ...]) -> str:
    """Describe a list, a set or a tuple. In JSON, all of them are lists."""
    item_forms = get_args(form) or (Any,)
    if has_fixed_length(form):
        items = [_describe(item_form, enclosing_classes) for item_form in item_forms]
        return f"[{', '.join(items)}]"
    # Of `tuple[int, ...]`, the second form is an ellipsis.
    return f"[{_describe(item_forms[0], enclosing_classes)}, ...]"


def _describe_dict(form: Any, enclosing_classes: tuple[object, ...]) -> str:
    key_form, value_form = get_args(form) or (str, Any)
    key = _describe(key_form, enclosing_classes)
    value = _describe(value_form, enclosing_classes)
    return f"{{{key}: {value}, ...}}"


def _describe_class(form: Any, enclosing_classes: tuple[object, ...]) -> str:
    """Describe a dataclass, a named tuple or a typed dict."""
    fields = []
    for field in form_fields(form):
        description = _describe(field.form, (*enclosing_classes, form))
        note = "" if field.is_required else " (or left out)"
        fields.append(f"{json.dumps(field.name)}: {description}{note}")
    return f"{{{', '.join(fields)}}}"
