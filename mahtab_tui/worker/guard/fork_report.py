"""Reads the report of a locked fork, in its kernel. Nothing that the fork sends is trusted or executed."""

from __future__ import annotations

import ast
import keyword
import pickletools
import sys
from functools import partial
from typing import Any

from ..cells.capture import shorten
from ..cells.outcomes import MAX_SENT_CHARS, ForkReport, Outcome
from ..stdlib import late_import
from ..values.objects import is_module, own_dict
from ..values.variables import HIDDEN_NAMES
from . import plain_pickle, trial
from .fork_messages import (
    MAX_LOST_NAMES,
    MAX_NAMES,
    imported_modules,
    is_harmless_module,
    is_named,
    may_name_module,
    names_other_module,
    replaces_callable,
    stopped,
    to_clause,
)
from .lost_state import MAX_LABELS

_COSTLY_OPCODES = frozenset(
    ("BINPERSID", "LONG_BINPUT", "PUT", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "FROZENSET")
)
"""A few bytes after the first three can describe an object of a library that fills the memory, or a
large place in the memo of the pickle, which has room for all smaller ones. Hashing or comparing
nested tuples visits each as often as it is referred to."""
_MAX_UNTRIED_BYTES = 2**14
"""Values of up to this size are loaded without a trial, if they are Python's own objects."""
_MAX_PIECES = 20
"""Texts of a cell's outcome."""
_MAX_FRAMES = 1_000
"""Frames of a cell's error."""
_MAX_LABEL_CHARS = 100
"""Characters of a setting's or a lost variable's name."""
TOO_LARGE = "makes values that are too large to be brought back"
"""What code does whose report is too large, as a clause."""
_PIECE_KINDS = ("stdout", "value", "traceback")


class ReportReader:
    """Reads the report of one cell."""

    def __init__(self, namespace: dict[str, object], tree: ast.Module, *, keep: bool) -> None:
        """
        Args:
            namespace: The kernel's, to which the values refer.
            tree: The cell's code.
            keep: Whether to read new values.
        """
        self._namespace = namespace
        self._tree = tree
        self._keep = keep
        self._imported_names = frozenset(imported_modules(tree))
        """What the code imports, modules and names in modules."""

    def read(self, message: dict[str, Any], data: bytes) -> ForkReport:
        """Return the report, made of checked values; that of a stopped cell if there are too many.

        May raise anything.
        """
        if needs := to_clause(message["needs"]):
            return stopped(needs)
        if len(message["values"]) > MAX_NAMES:
            return stopped(f"makes more than {MAX_NAMES:,} names")
        if len(message["deleted"]) > MAX_NAMES:
            return stopped(f"deletes more than {MAX_NAMES:,} names")

        values: dict[str, Any] = {}
        if self._keep:
            self._import_modules(message["modules"])
            read_values = partial(self._read_values, message["values"], data)
            is_small = _are_surely_small(message["values"], data)
            if not is_small and not trial.ends_within_limits(read_values):
                return stopped(TOO_LARGE)
            values = read_values()
        deleted_names = [_checked_name(name) for name in message["deleted"]]
        deleted = [name for name in deleted_names if name in self._namespace]

        lost_labels = [str(name)[:_MAX_LABEL_CHARS] for name in message["lost"][:MAX_LOST_NAMES]]
        lost_names = [label for label in lost_labels if label.isidentifier()]
        labels = message["settings"][:MAX_LABELS]
        settings = [to_clause(label)[:_MAX_LABEL_CHARS] for label in labels]
        outcome = _read_outcome(message, data)
        copied_names = [_checked_name(name) for name in message["copied"][:MAX_NAMES]]
        has_more_lost = len(message["lost"]) >= MAX_LOST_NAMES
        return ForkReport(
            outcome, values, deleted, lost_names, "", settings, copied_names, has_more_lost
        )

    def _import_modules(self, names: list[Any]) -> None:
        """Import the modules that the fork has loaded, if the code itself imports them: the fork may
        send any name."""
        for name in names:
            is_allowed = name in self._imported_names and is_harmless_module(name)
            if is_allowed and name not in sys.modules:
                late_import(name)

    def _read_values(self, rows: list[list[Any]], data: bytes) -> dict[str, object]:
        """Return the values of the report. May raise anything, and take any time and memory."""
        return {
            _checked_name(name): self._read_value(name, form, fields, data)
            for name, form, fields in rows
        }

    def _read_value(self, name: str, form: str, fields: list[Any], data: bytes) -> object:
        """Return a value of the report.

        Args:
            name: The variable that gets it.
            form: As in `ValueRow`.
            fields: As in `ValueRow`.
            data: The data of the message.

        Raises:
            ValueError: The value may not have this name, or is not what the fields say. Others may
                be raised for fields that are not as described.
        """
        if form == "data":
            start, size = fields
            return plain_pickle.load(data[start : start + size])
        if form == "same":
            value = self._namespace[fields[0]]
            if is_module(value) and names_other_module(name, str(own_dict(value).get("__name__"))):
                raise ValueError(name)
        elif form == "module":
            value = sys.modules[fields[0]]
            if not may_name_module(name, fields[0], self._tree):
                raise ValueError(name)
        else:  # "of"
            module, attribute = fields
            value = self._read_attribute(module, attribute)
            # A function under another name could be taken for something else.
            is_renamed = not isinstance(value, type) and name != attribute
            if is_renamed or not is_named(value, attribute):
                raise ValueError(name)
        if (callable(value) or form == "module") and replaces_callable(name, self._namespace):
            raise ValueError(name)
        return value

    def _read_attribute(self, module: str, name: str) -> object:
        """Return an attribute of a loaded module. Raises `KeyError` or `AttributeError`."""
        names = vars(sys.modules[module])
        # Some modules load their parts on first use, which may run any code of the module's.
        is_imported = f"{module}.{name}" in self._imported_names
        if name not in names and is_imported and is_harmless_module(module):
            return getattr(sys.modules[module], name)
        return names[name]


def _are_surely_small(rows: list[list[Any]], data: bytes) -> bool:
    """Return whether values need little time and memory, without reading them.

    May raise anything for rows that are not as described.
    """
    if len(data) > _MAX_UNTRIED_BYTES:
        return False
    for _, form, fields in rows:
        if form == "data":
            start, size = fields
            pickled = data[start : start + size]
            if any(opcode.name in _COSTLY_OPCODES for opcode, _, _ in pickletools.genops(pickled)):
                return False
    return True


def _read_outcome(message: dict[str, Any], data: bytes) -> Outcome:
    """Return how the cell ended, with at most as much text as a kernel may send.

    May raise anything.
    """
    status = message["status"]
    if status not in ("ok", "error", "interrupted"):
        status = "error"
    pieces = []
    for kind, start, size in message["pieces"][:_MAX_PIECES]:
        if kind in _PIECE_KINDS:
            text = data[start : start + size].decode("utf-8", "replace")
            # Before the next text: all of them may be the whole data.
            pieces.append((kind, shorten(text, MAX_SENT_CHARS)))
    frames: Any = [
        [str(file), int(line), str(function), int(row)]
        for file, line, function, row in message["frames"][:_MAX_FRAMES]
    ]
    return Outcome(status, pieces, [], frames)


def _checked_name(name: object) -> str:
    """Return a name that the fork sends.

    Raises `ValueError` unless code of the user's could have bound it.
    """
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError("not a name")
    if name in HIDDEN_NAMES or name.startswith("__"):
        raise ValueError("a name of Python's own")
    return name
