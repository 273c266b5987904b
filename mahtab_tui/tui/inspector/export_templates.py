"""Templates of the code that writes an object to a file: {object} is the object's expression,
{file} that of the file's name. The tables have them by the object's exact type."""

from __future__ import annotations

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
"""Never overwrites an existing file, and removes an incomplete one."""
