"""What a cell changed inside a table or a dict: its columns, its index, its keys. No user code
runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..values.objects import (
    ATOMS,
    address_of,
    class_module,
    get_if_loaded,
    is_from,
    is_one_of,
    is_own_index,
    is_own_type,
    name_of,
)
from ..values.summaries import one_line, safe_length
from ..values.variables import MAX_COLUMNS

_MAX_NAME_CHARS = 30
"""Characters of the name of a part or of a type that are shown."""
NAMED_PARTS = 3
"""Names to show of columns or keys that came, went or changed in one way."""
MAX_KEYS = 100
"""Keys of a dict that are compared."""
MAX_COMPARED_CHARS = 10_000
"""Characters of a text in a dict that are compared; of a longer text, another object is a
change."""
SAMPLED_ROWS = 16
"""Rows of each column that are compared. Only if one of these values changed, the column did."""


class ComparedPart(NamedTuple):
    """A column of a table, or a value of a dict."""

    name: str
    type: str
    sample: int
    """A hash of some values; 0 if they cannot be read without running user code."""


class Parts(NamedTuple):
    """What is compared of one object before and after a cell."""

    word: str
    """``column`` or ``key``; empty if the object has no parts."""
    length: int
    """The rows of a table, because the values of other rows are not compared."""
    parts: tuple[ComparedPart, ...]
    index_name: str
    """How the index of a table is named; empty for other objects."""


NO_PARTS = Parts("", 0, (), "")


def read_parts(value: Any) -> Parts:
    """Return what is compared of an object; nothing for other kinds, and for too many parts."""
    try:
        if type(value) is dict:
            return _keys(value)
        if class_module(type(value)) == "builtins":
            return NO_PARTS
        if type(value) is get_if_loaded("pandas", "DataFrame"):
            return _pandas_columns(value)
        if type(value) is get_if_loaded("polars", "DataFrame") and value.width <= MAX_COLUMNS:
            columns = zip(value.columns, value.dtypes)
            parts = tuple(ComparedPart(name, str(dtype), 0) for name, dtype in columns)
            return Parts("column", value.height, parts, "")
    except Exception:  # a library's object in an inconsistent state
        pass
    return NO_PARTS


def column_names(value: Any) -> tuple[str, ...]:
    """Return the names of a table's columns; empty for other objects, and for too many columns."""
    if class_module(type(value)) == "builtins":
        return ()
    try:
        if type(value) is get_if_loaded("pandas", "DataFrame"):
            labels = value.columns
            is_small = is_own_index(labels) and len(labels) <= MAX_COLUMNS
            names = labels.tolist() if is_small else []
        elif type(value) is get_if_loaded("polars", "DataFrame"):
            names = value.columns if value.width <= MAX_COLUMNS else []
        else:
            return ()
    except Exception:  # a library's object in an inconsistent state
        return ()
    return tuple(name for name in names if type(name) is str)


def _keys(value: dict[Any, Any]) -> Parts:
    """Return the keys of a dict, with the values that can be compared."""
    if len(value) > MAX_KEYS:
        return NO_PARTS
    parts = []
    for key, item in list(value.items()):
        if type(key) is not str:
            continue
        is_atom = address_of(type(item)) in ATOMS
        is_compared = is_atom and (safe_length(item) or 0) <= MAX_COMPARED_CHARS
        sample = hash(item) if is_compared else address_of(item)
        parts.append(ComparedPart(key, name_of(type(item)), sample))
    return Parts("key", 0, tuple(parts), "")


def _pandas_columns(table: Any) -> Parts:
    """Return the columns of a table whose names are texts. May raise anything for a table in an
    inconsistent state."""
    labels = table.columns
    if not is_own_index(labels) or len(labels) > MAX_COLUMNS:
        return NO_PARTS
    names = labels.tolist()
    facts = {}
    # As the manager has them: a Series of each column would take longer than most cells.
    for block in table._mgr.blocks:
        values = block.values
        if not is_from(values, "numpy", "pandas") or not is_own_type(values.dtype):
            continue
        is_divided = values.ndim == 2
        for row, position in enumerate(block.mgr_locs):
            column = values[row] if is_divided else values
            facts[position] = (str(values.dtype), _sample(column))
    parts = []
    for position, name in enumerate(names):
        if type(name) is str:
            parts.append(ComparedPart(name, *facts.get(position, ("", 0))))
    return Parts("column", len(table.index), tuple(parts), _index_name(table.index))


def _sample(column: Any) -> int:
    """Return a hash of some values of a pandas or numpy array of one dimension."""
    array = getattr(column, "_ndarray", column)
    step = max(1, len(array) // SAMPLED_ROWS)
    sampled = array[::step]
    if type(sampled) is not get_if_loaded("numpy", "ndarray"):
        # Strings in memory of pyarrow.
        if not hasattr(sampled, "_pa_array"):
            return 0
        return hash(tuple(sampled._pa_array.to_pylist()))
    if sampled.dtype.kind != "O":
        return hash(sampled.tobytes())
    values = sampled.tolist()
    are_plain = all(address_of(type(value)) in ATOMS for value in values)
    return hash(tuple(values)) if are_plain else 0


def _index_name(index: Any) -> str:
    """Return how an index is named: by its names, or else by its type."""
    if not is_own_index(index):
        return ""
    names = [name for name in index.names if type(name) is str]
    if names:
        return ", ".join(f"`{one_line(name, _MAX_NAME_CHARS)}`" for name in names)
    return "range" if is_one_of(index, "pandas", "RangeIndex") else str(index.dtype)


class _PartChanges(NamedTuple):
    """Which parts came, went or changed."""

    added: list[str]
    removed: list[str]
    with_new_type: dict[str, list[str]]
    """Parts by what is said of their types: ``: str → datetime64[us]``."""
    with_new_values: list[str]
    common_count: int
    """How many parts there were before, too."""


def describe_parts(old: Parts, new: Parts) -> str:
    """Describe what changed: ``+ column `z`, column `date`: str → datetime64[us], column `price` ``.

    Of values that changed, the parts are only named if others stayed as they were.
    """
    if old.word != new.word or not old.parts or not new.parts:
        return ""
    changes = _compare_parts(old, new)
    clauses = []
    if changes.added:
        clauses.append(f"+ {_name_parts(new.word, changes.added)}")
    if changes.removed:
        clauses.append(f"− {_name_parts(new.word, changes.removed)}")
    for types, names in changes.with_new_type.items():
        clauses.append(_name_parts(new.word, names) + types)
    have_others_stayed = len(changes.with_new_values) < max(2, changes.common_count)
    if changes.with_new_values and have_others_stayed:
        clauses.append(_name_parts(new.word, changes.with_new_values))
    if old.index_name != new.index_name and old.index_name and new.index_name:
        clauses.append(f"index: {old.index_name} → {new.index_name}")
    return ", ".join(clauses)


def _compare_parts(old: Parts, new: Parts) -> _PartChanges:
    old_parts = {part.name: part for part in old.parts}
    new_names = {part.name for part in new.parts}
    with_new_type: dict[str, list[str]] = {}
    with_new_values = []
    common_parts = [part for part in new.parts if part.name in old_parts]
    for part in common_parts:
        old_part = old_parts[part.name]
        if old_part.type != part.type:
            types = f": {one_line(old_part.type, _MAX_NAME_CHARS)} → {one_line(part.type, _MAX_NAME_CHARS)}"
            with_new_type.setdefault(types, []).append(part.name)
        elif old_part.sample != part.sample and old.length == new.length:
            with_new_values.append(part.name)
    return _PartChanges(
        added=[part.name for part in new.parts if part.name not in old_parts],
        removed=[name for name in old_parts if name not in new_names],
        with_new_type=with_new_type,
        with_new_values=with_new_values,
        common_count=len(common_parts),
    )


def _name_parts(word: str, names: list[str]) -> str:
    """Name the first parts, and say how many others there are."""
    plural = word if len(names) == 1 else f"{word}s"
    text = f"{plural} " + ", ".join(
        f"`{one_line(name, _MAX_NAME_CHARS)}`" for name in names[:NAMED_PARTS]
    )
    unnamed_count = len(names) - NAMED_PARTS
    return f"{text} and {unnamed_count:,} more" if unnamed_count > 0 else text
