"""Code that writes an object to a new file. It runs as a cell, so that the user can see and stop
it."""

from __future__ import annotations

import os

from mahtab_tui.kernel.inspector_client import InspectedObject, TableArrangement
from mahtab_tui.tui.screens.inspector.table_columns import TableColumns

ENDINGS = (".csv", ".json", ".txt", ".pkl")

# {e}: the object; {f}: the file.
_CSV = {
    "pandas.DataFrame": "{e}.to_csv({f})",
    "pandas.Series": "{e}.to_csv({f})",
    "polars.DataFrame": "{e}.write_csv({f})",
    "polars.Series": "{e}.to_frame().write_csv({f})",
    "pyarrow.Table": "__import__('pyarrow.csv').csv.write_csv({e}, {f})",
    "numpy.ndarray": "__import__('numpy').savetxt({f}, {e}, delimiter=',', fmt='%s', encoding='utf-8')",
}
_WRITTEN = "__import__('pathlib').Path({{f}}).write_text({}, encoding='utf-8')"
_JSON = {
    "pandas.DataFrame": "{e}.to_json({f}, orient='records', date_format='iso')",
    "pandas.Series": "{e}.to_json({f}, date_format='iso')",
    "polars.DataFrame": "{e}.write_json({f})",
    "numpy.ndarray": _WRITTEN.format("__import__('json').dumps({e}.tolist(), default=str)"),
}
_ANY_JSON = _WRITTEN.format("__import__('json').dumps({e}, indent=1, default=str)")
_TEXT = _WRITTEN.format("{e}")
_ANY_TEXT = _WRITTEN.format("repr({e})")
_PICKLE = "(lambda file: [__import__('pickle').dump({e}, file), file.close()])(open({f}, 'wb'))"
_NEW_FILE = """\
open({f}, 'x').close()
try:
    {form}
except BaseException:
    __import__('os').remove({f})
    raise"""
"""An existing file is not changed, and an incomplete one is removed."""


def rows_code(expression: str, arranged: TableArrangement, columns: TableColumns) -> str:
    """Write the code of a table's rows as they are sorted and filtered."""

    def column(number: int) -> str:
        heading = columns.headings.get(number)
        names = [known.name for known in columns.headings.values()]
        all_known = len(names) == columns.count
        return (
            repr(heading.name)
            if heading is not None and all_known and names.count(heading.name) == 1
            else str(number)
        )

    parts = [expression]
    if arranged.sort is not None:
        parts.append(
            f"sort={column(arranged.sort[0])}" + (", descending=True" if arranged.sort[1] else "")
        )
    if arranged.filters:
        parts.append(
            f"filters={{{', '.join(f'{column(number)}: {condition!r}' for number, condition in arranged.filters)}}}"
        )
    return f"table_rows({', '.join(parts)})"


def base_name(opened: InspectedObject) -> str:
    """The last name in an object's expression."""
    name = "".join(c if c.isalnum() or c == "_" else " " for c in opened.expression).split()
    return next(
        (word for word in reversed(name) if word.isidentifier() and word != "iloc"), "value"
    )


def suggested(opened: InspectedObject) -> str:
    """Suggest a file for an object, named after the last name in its expression."""
    ending = (
        ".csv"
        if opened.known in _CSV
        else ".txt"
        if "text" in opened.views
        else ".json"
        if opened.known.startswith("builtins.")
        else ".pkl"
    )
    return f"{base_name(opened)}{ending}"


def export_code(opened: InspectedObject, file: str) -> str:
    """Write the cell. Raises `ValueError` with a sentence if the file's ending is unknown, or does
    not fit the object."""
    if not opened.expression:
        raise ValueError(
            "No expression refers to this object: assign it to a variable in a cell, and export that."
        )
    ending = next((ending for ending in ENDINGS if file.endswith(ending)), "")
    if not ending:
        raise ValueError(f"The file must end in one of {', '.join(ENDINGS)}.")
    form = {
        ".csv": _CSV.get(opened.known, ""),
        ".json": _JSON.get(opened.known, _ANY_JSON),
        ".txt": _TEXT if "text" in opened.views else _ANY_TEXT,
        ".pkl": _PICKLE,
    }[ending]
    if not form:
        raise ValueError(f"Only tables and arrays can be written as CSV, not a {opened.type}.")
    path = repr(os.path.expanduser(file))
    return _NEW_FILE.format(f=path, form=form.format(e=opened.expression, f=path))
