"""Writes the cells that export objects to files.

An export is a cell of the user's, so that it appears in the transcript and in the notebook, can be
changed and run again, and works with a kernel on another machine.
"""

from __future__ import annotations

import re

from mahtab_tui.kernel.inspector_client import InspectedObject
from mahtab_tui.tui.inspector.export_templates import (
    CSV_TEMPLATES,
    DEFAULT_JSON_CODE,
    JSON_TEMPLATES,
    NEW_FILE_CODE,
    PICKLE_CODE,
    REPR_CODE,
    TEXT_CODE,
)

EXPORT_SUFFIXES = (".csv", ".json", ".txt", ".pkl")
_JSON_BUILTINS = {
    f"builtins.{kind.__name__}" for kind in (dict, list, tuple, set, frozenset, int, float, bool)
}
"""Types whose objects are best written as JSON."""
_WORD = re.compile(r"\w+")
_INDEXERS = ("iloc",)
"""Attributes in expressions that name nothing: a column is ``frame.iloc[:, 2]``."""


def base_name(opened: InspectedObject) -> str:
    """Return the last name in the object's expression, to build names of files and variables.

    For ``frames["sales 2024"].iloc[:, 2]``, this is ``sales``; without a name, ``value``.
    """
    words: list[str] = _WORD.findall(opened.expression)
    for word in reversed(words):
        if word.isidentifier() and word not in _INDEXERS:
            return word
    return "value"


def suggest_file_name(opened: InspectedObject) -> str:
    """Return the name of a file in the form that suits an object best."""
    if opened.library_type in CSV_TEMPLATES and not _has_other_dimensions(opened):
        suffix = ".csv"
    elif "text" in opened.views:
        suffix = ".txt"
    elif opened.library_type in _JSON_BUILTINS:
        suffix = ".json"
    else:
        suffix = ".pkl"
    return f"{base_name(opened)}{suffix}"


def _has_other_dimensions(opened: InspectedObject) -> bool:
    """Return whether an object is an array of more than two dimensions, or of none."""
    return opened.library_type == "numpy.ndarray" and not (opened.rows or opened.columns)


def export_code(opened: InspectedObject, file: str) -> str:
    """Write the cell that exports an object.

    Raises:
        ValueError: The object has no expression, or its type cannot be written with the file's
            suffix; the message is a sentence.
    """
    if not opened.expression:
        advice = "assign it to a variable in a cell, and export that."
        raise ValueError(f"No expression refers to this object: {advice}")
    suffix = next((suffix for suffix in EXPORT_SUFFIXES if file.endswith(suffix)), "")
    if not suffix:
        raise ValueError(f"The file must end in one of {', '.join(EXPORT_SUFFIXES)}.")
    templates = {
        ".csv": CSV_TEMPLATES.get(opened.library_type, ""),
        ".json": JSON_TEMPLATES.get(opened.library_type, DEFAULT_JSON_CODE),
        ".txt": TEXT_CODE if "text" in opened.views else REPR_CODE,
        ".pkl": PICKLE_CODE,
    }
    template = templates[suffix]
    if not template:
        raise ValueError(f"Only tables and arrays can be written as CSV, not a {opened.type}.")
    if suffix == ".csv" and _has_other_dimensions(opened):
        raise ValueError("Only arrays of one or two dimensions can be written as CSV.")
    path = repr(file)
    if file.startswith("~"):  # the home folder of the kernel, which may run on another machine
        path = f"__import__('os').path.expanduser({path})"
    export = template.format(object=opened.expression, file=path)
    return NEW_FILE_CODE.format(file=path, export=export)
