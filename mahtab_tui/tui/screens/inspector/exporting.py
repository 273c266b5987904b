"""Code that writes an object to a file: it runs as a cell, so it can be seen and stopped."""

from __future__ import annotations

from mahtab_tui.kernel.looking import Opened

ENDINGS = (".csv", ".json", ".txt", ".pkl")

_CSV = {
    ("pandas", "DataFrame"): "{e}.to_csv({f})",
    ("pandas", "Series"): "{e}.to_csv({f})",
    ("polars", "DataFrame"): "{e}.write_csv({f})",
    ("polars", "Series"): "{e}.to_frame().write_csv({f})",
    ("pyarrow", "Table"): "__import__('pyarrow.csv').csv.write_csv({e}, {f})",
    ("numpy", "ndarray"): "__import__('numpy').savetxt({f}, {e}, delimiter=',', fmt='%s')",
}
_JSON = {
    ("pandas", "DataFrame"): "{e}.to_json({f}, orient='records', date_format='iso')",
    ("pandas", "Series"): "{e}.to_json({f}, date_format='iso')",
    ("polars", "DataFrame"): "{e}.write_json({f})",
    ("numpy", "ndarray"): "__import__('json').dump({e}.tolist(), open({f}, 'w'))",
}
_ANY_JSON = "__import__('json').dump({e}, open({f}, 'w'), indent=1, default=str)"
_TEXT = "open({f}, 'w', encoding='utf-8').write({e});"
_ANY_TEXT = "open({f}, 'w', encoding='utf-8').write(repr({e}));"
_PICKLE = "__import__('pickle').dump({e}, open({f}, 'wb'))"


def suggested(opened: Opened) -> str:
    """A file for an object, named after the last name on the way to it."""
    name = "".join(c if c.isalnum() or c == "_" else " " for c in opened.expression).split()
    kind = (opened.library, opened.type)
    ending = ".csv" if kind in _CSV else ".txt" if "text" in opened.views else ".json" if opened.library == "builtins" else ".pkl"
    return f"{name[-1] if name else 'value'}{ending}"


def export_code(opened: Opened, file: str) -> str:
    """The cell. Raises `ValueError` with a sentence where the file's ending says nothing, or there is no such form."""
    if not opened.expression:
        raise ValueError("It has no name in code: give it one in a cell, and export that.")
    ending = next((ending for ending in ENDINGS if file.endswith(ending)), "")
    kind = (opened.library, opened.type)
    if ending == ".csv":
        form = _CSV.get(kind, "")
        if not form:
            raise ValueError(f"Only tables and arrays can be written as CSV, no {opened.type}.")
    elif ending == ".json":
        form = _JSON.get(kind, _ANY_JSON)
    elif ending == ".txt":
        form = _TEXT if "text" in opened.views else _ANY_TEXT
    elif ending == ".pkl":
        form = _PICKLE
    else:
        raise ValueError(f"The file's ending says how it is written: {', '.join(ENDINGS)}.")
    return form.format(e=opened.expression, f=repr(file))
