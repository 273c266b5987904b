"""Describes a form of answers for a model."""

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


def describe_form(form: Any, within: tuple[object, ...] = ()) -> str:
    """Describe a form for a model.

    Args:
        form: A type.
        within: The classes that contain it, which are not described again.

    Raises:
        TypeError: There is no such form.
    """
    form = strip_annotations(form)
    origin = get_origin(form) or form
    inner_forms = get_args(form)
    if not isinstance(origin, Hashable):  # for example [int] instead of list[int]
        raise unsupported_form(form)
    if simple := simple_form(form):
        return simple.description
    if form in within:
        return f"another {form.__name__}"
    if origin in UNIONS:
        return " or ".join(describe_form(inner_form, within) for inner_form in inner_forms)
    if choices := find_choices(form):
        return " or ".join(json.dumps(values[0], default=str) for values in choices.values())
    if has_fixed_length(form):
        items = [describe_form(item_form, within) for item_form in inner_forms]
        return f"[{', '.join(items)}]"
    if origin in LIST_MAKERS:
        item = describe_form(inner_forms[0], within) if inner_forms else "any JSON"
        return f"[{item}, ...]"
    if origin in DICTS:
        key_form, value_form = inner_forms or (str, Any)
        return f"{{{describe_form(key_form, within)}: {describe_form(value_form, within)}, ...}}"
    if hasattr(form, "model_validate"):
        return f"an object by this JSON schema: {json.dumps(form.model_json_schema())}"
    return _describe_object(form, within)


def _describe_object(form: Any, within: tuple[object, ...]) -> str:
    fields = []
    for field in form_fields(form):
        description = describe_form(field.form, (*within, form))
        note = "" if field.is_required else " (or left out)"
        fields.append(f"{json.dumps(field.name)}: {description}{note}")
    return f"{{{', '.join(fields)}}}"
