"""Code that exports objects to files."""

from __future__ import annotations

from mahtab_tui.kernel.inspector_client import InspectedObject

EXPORT_SUFFIXES = (".csv", ".json", ".txt", ".pkl")
# Code that exports an object, by its exact type: {e} is the object, {f} the file.
CSV_CODE = {
    "pandas.DataFrame": "{e}.to_csv({f})",
    "pandas.Series": "{e}.to_csv({f})",
    "polars.DataFrame": "{e}.write_csv({f})",
    "polars.Series": "{e}.to_frame().write_csv({f})",
    "pyarrow.Table": "__import__('pyarrow.csv').csv.write_csv({e}, {f})",
    # Unlike `savetxt`, it quotes texts that contain commas.
    "numpy.ndarray": (
        "(lambda array, file: [__import__('csv').writer(file, lineterminator='\\n')"
        ".writerows(array[:, None] if array.ndim == 1 and not array.dtype.names else array), file.close()])"
        "({e}, open({f}, 'w', newline='', encoding='utf-8'))"
    ),
}
WRITE_TEXT_CODE = "__import__('pathlib').Path({{f}}).write_text({}, encoding='utf-8')"
# JSON has no form for other objects: `json` raises TypeError, so that no repr takes their place.
JSON_DEFAULT = (
    "lambda x: list(x) if isinstance(x, (set, frozenset)) else x.tolist() if type(x).__module__ == 'numpy'"
    " else str(x) if hasattr(x, 'isoformat') or hasattr(x, '__fspath__') or type(x).__module__ in ('datetime', 'decimal', 'fractions', 'uuid')"
    " else __import__('json').JSONEncoder().default(x)"
)
LIST_JSON_CODE = WRITE_TEXT_CODE.format(
    f"__import__('json').dumps({{e}}.tolist(), default={JSON_DEFAULT})"
)
ARROW_JSON_CODE = LIST_JSON_CODE.replace(".tolist(),", ".to_pylist(),")
DEFAULT_JSON_CODE = WRITE_TEXT_CODE.format(
    f"__import__('json').dumps({{e}}, indent=1, default={JSON_DEFAULT})"
)
JSON_BUILTINS = {
    f"builtins.{kind.__name__}" for kind in (dict, list, tuple, set, frozenset, int, float, bool)
}
INDEX_KINDS = ("", "Range", "Multi", "Categorical", "Datetime", "Timedelta", "Period", "Interval")
JSON_CODE = {
    "pandas.DataFrame": "{e}.to_json({f}, orient='records', date_format='iso')",
    "pandas.Series": "{e}.to_json({f}, date_format='iso')",
    **{f"pandas.{kind}Index": LIST_JSON_CODE for kind in INDEX_KINDS},
    "polars.DataFrame": "{e}.write_json({f})",
    "polars.Series": "{e}.to_frame().write_json({f})",
    "pyarrow.Table": ARROW_JSON_CODE,
    "pyarrow.ChunkedArray": ARROW_JSON_CODE,
    "numpy.ndarray": LIST_JSON_CODE,
    "torch.Tensor": LIST_JSON_CODE,
}
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
    if opened.library_type in CSV_CODE and not _has_other_dimensions(opened):
        suffix = ".csv"
    elif "text" in opened.views:
        suffix = ".txt"
    elif opened.library_type in JSON_BUILTINS:
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
        ".csv": CSV_CODE.get(opened.library_type, ""),
        ".json": JSON_CODE.get(opened.library_type, DEFAULT_JSON_CODE),
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
    return NEW_FILE_CODE.format(f=path, form=template.format(e=opened.expression, f=path))
