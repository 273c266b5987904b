"""Code that exports objects to files."""

from __future__ import annotations

import os

from mahtab_tui.kernel.inspector_client import InspectedObject

EXPORT_SUFFIXES = (".csv", ".json", ".txt", ".pkl")
# Code that exports an object, by its exact type: {e} is the object, {f} the file.
CSV_CODE = {
    "pandas.DataFrame": "{e}.to_csv({f})",
    "pandas.Series": "{e}.to_csv({f})",
    "polars.DataFrame": "{e}.write_csv({f})",
    "polars.Series": "{e}.to_frame().write_csv({f})",
    "pyarrow.Table": "__import__('pyarrow.csv').csv.write_csv({e}, {f})",
    "numpy.ndarray": "__import__('numpy').savetxt({f}, {e}, delimiter=',', fmt='%s', encoding='utf-8')",
}
WRITE_TEXT_CODE = "__import__('pathlib').Path({{f}}).write_text({}, encoding='utf-8')"
JSON_CODE = {
    "pandas.DataFrame": "{e}.to_json({f}, orient='records', date_format='iso')",
    "pandas.Series": "{e}.to_json({f}, date_format='iso')",
    "polars.DataFrame": "{e}.write_json({f})",
    "numpy.ndarray": WRITE_TEXT_CODE.format("__import__('json').dumps({e}.tolist(), default=str)"),
}
DEFAULT_JSON_CODE = WRITE_TEXT_CODE.format("__import__('json').dumps({e}, indent=1, default=str)")
TEXT_CODE = WRITE_TEXT_CODE.format("{e}")
REPR_CODE = WRITE_TEXT_CODE.format("repr({e})")
PICKLE_CODE = "(lambda file: [__import__('pickle').dump({e}, file), file.close()])(open({f}, 'wb'))"
NEW_FILE_CODE = """\
open({f}, 'x').close()
try:
    {form}
except BaseException:
    __import__('os').remove({f})
    raise"""
"""Never overwrites an existing file, and removes an incomplete one."""


def base_name(opened: InspectedObject) -> str:
    """Return the last name in the object's expression, to build names of files and variables."""
    text = "".join(char if char.isalnum() or char == "_" else " " for char in opened.expression)
    names = (word for word in reversed(text.split()) if word.isidentifier() and word != "iloc")
    return next(names, "value")


def suggest_file(opened: InspectedObject) -> str:
    """Return the name of a file in the form that suits an object best."""
    if opened.library_type in CSV_CODE:
        suffix = ".csv"
    elif "text" in opened.views:
        suffix = ".txt"
    elif opened.library_type.startswith("builtins."):
        suffix = ".json"
    else:
        suffix = ".pkl"
    return f"{base_name(opened)}{suffix}"


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
        ".csv": CSV_CODE.get(opened.library_type, ""),
        ".json": JSON_CODE.get(opened.library_type, DEFAULT_JSON_CODE),
        ".txt": TEXT_CODE if "text" in opened.views else REPR_CODE,
        ".pkl": PICKLE_CODE,
    }
    template = templates[suffix]
    if not template:
        raise ValueError(f"Only tables and arrays can be written as CSV, not a {opened.type}.")
    path = repr(os.path.expanduser(file))
    return NEW_FILE_CODE.format(f=path, form=template.format(e=opened.expression, f=path))
