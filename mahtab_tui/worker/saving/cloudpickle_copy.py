"""Our copy of cloudpickle in the kernel, with what it lacks."""

from __future__ import annotations

import types
from typing import Any

from ..stdlib import load_package
from ..values.objects import class_dict, get_if_loaded

_CLOUDPICKLE = "mahtab_cloudpickle"
"""The name under which it is loaded."""


def load_cloudpickle(folder: str, kernel: str = "") -> object:
    """Load our cloudpickle.

    Args:
        folder: Where it is.
        kernel: Identifies this kernel when saving, so that a class has one id in all pickles.

    Returns:
        Its package.
    """
    package = load_package(_CLOUDPICKLE, folder)
    # If two threads do it at the same time, it is done twice, which changes nothing.
    if package.cloudpickle._class_getstate.__module__ != __name__:
        _keep_slots(package.cloudpickle)
    if kernel:
        tracked_classes = package.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS
        package.cloudpickle._get_or_create_tracker_id = lambda cls: (
            tracked_classes.get(cls) or f"{kernel}-{id(cls):x}"
        )
    return package


def _keep_slots(cloudpickle: Any) -> None:
    """Make classes with their `__slots__`, which cloudpickle (3.1) sets too late."""
    get_arguments = cloudpickle._class_getnewargs
    get_state = cloudpickle._class_getstate

    def class_arguments(cls: type) -> tuple[object, ...]:
        metaclass, name, bases, attributes, *other_arguments = get_arguments(cls)
        # `NamedTuple` sets them itself, and refuses others.
        is_named_tuple = any(base is get_if_loaded("typing", "NamedTuple") for base in bases)
        if "__slots__" in class_dict(cls) and not is_named_tuple:
            attributes = {**attributes, "__slots__": class_dict(cls)["__slots__"]}
        return metaclass, name, bases, attributes, *other_arguments

    def class_state(cls: type) -> tuple[dict[str, object], object]:
        attributes, slots = get_state(cls)
        # Private slots have other names in the class than in `__slots__`.
        without_slots = {
            name: value
            for name, value in attributes.items()
            if type(value) is not types.MemberDescriptorType or value.__objclass__ is not cls
        }
        return without_slots, slots

    cloudpickle._class_getnewargs = class_arguments
    cloudpickle._class_getstate = class_state
