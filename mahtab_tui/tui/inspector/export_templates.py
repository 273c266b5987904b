"""Templates of the code that writes an object to a file.

`{object}` stands for the object's expression, `{file}` for that of the file's name. The tables have the
templates by the object's exact type.

The code runs as a cell of the user's, who sees it, and must leave no names in the namespace. So each
template is a single expression: modules come from `__import__`, and names are parameters of a lambda.
"""

from __future__ import annotations

# Tables and arrays as CSV
CSV_TEMPLATES = {
    "pandas.DataFrame": "{object}.to_csv({file})",
    "pandas.Series": "{object}.to_csv({file})",
    "polars.DataFrame": "{object}.write_csv({file})",
    "polars.Series": "{object}.to_frame().write_csv({file})",
    "pyarrow.Table": "__import__('pyarrow.csv').csv.write_csv({object}, {file})",
    # Unlike `savetxt`, it quotes texts that contain commas.
    "numpy.ndarray": (
        "(lambda array, file: [__import__('csv').writer(file, lineterminator='\\n')"
        ".writerows(array[:, None] if array.ndim == 1 and not array.dtype.names else array), file.close()])"
        "({object}, open({file}, 'w', newline='', encoding='utf-8'))"
    ),
}

_WRITE_TEXT_CODE = "__import__('pathlib').Path({{file}}).write_text({}, encoding='utf-8')"
"""Writes a text to the file. `format` puts the text's expression into it, and leaves `{file}`."""

# JSON has no form for other objects: `json` raises TypeError, so that no repr takes their place.
_JSON_DEFAULT = (
    "lambda x: list(x) if isinstance(x, (set, frozenset))"
    " else x.tolist() if type(x).__module__ == 'numpy'"
    " else str(x) if hasattr(x, 'isoformat') or hasattr(x, '__fspath__')"
    " or type(x).__module__ in ('datetime', 'decimal', 'fractions', 'uuid')"
    " else __import__('json').JSONEncoder().default(x)"
)

_LIST_JSON_CODE = _WRITE_TEXT_CODE.format(
    f"__import__('json').dumps({{object}}.tolist(), default={_JSON_DEFAULT})"
)
_ARROW_JSON_CODE = _LIST_JSON_CODE.replace(".tolist(),", ".to_pylist(),")
DEFAULT_JSON_CODE = _WRITE_TEXT_CODE.format(
    f"__import__('json').dumps({{object}}, indent=1, default={_JSON_DEFAULT})"
)

_INDEX_KINDS = ("", "Range", "Multi", "Categorical", "Datetime", "Timedelta", "Period", "Interval")
"""What stands before ``Index`` in the names of pandas' types."""
JSON_TEMPLATES = {
    # Records have no place for row labels, which become columns unless they only count the rows.
    "pandas.DataFrame": (
        "(lambda frame: (frame if type(frame.index).__name__ == 'RangeIndex' and frame.index.name is None"
        " and (frame.index.start, frame.index.step) == (0, 1) else frame.reset_index())"
        ".to_json({file}, orient='records', date_format='iso'))({object})"
    ),
    "pandas.Series": "{object}.to_json({file}, date_format='iso')",
    **{f"pandas.{kind}Index": _LIST_JSON_CODE for kind in _INDEX_KINDS},
    "polars.DataFrame": "{object}.write_json({file})",
    "polars.Series": "{object}.to_frame().write_json({file})",
    "pyarrow.Table": _ARROW_JSON_CODE,
    "pyarrow.ChunkedArray": _ARROW_JSON_CODE,
    "numpy.ndarray": _LIST_JSON_CODE,
    "torch.Tensor": _LIST_JSON_CODE,
}
"""The types that do not become JSON by `DEFAULT_JSON_CODE`."""

TEXT_CODE = _WRITE_TEXT_CODE.format("{object}")
REPR_CODE = _WRITE_TEXT_CODE.format("repr({object})")
PICKLE_CODE = (
    "(lambda file: [__import__('pickle').dump({object}, file), file.close()])(open({file}, 'wb'))"
)

NEW_FILE_CODE = """\
open({file}, 'x').close()
try:
    {export}
except BaseException:
    __import__('os').remove({file})
    raise"""
"""The cell around the expression. It never overwrites an existing file, and removes an incomplete one."""
