"""Turns the new values of a locked fork into what its kernel gets of them.

The kernel gets plain data as bytes, and finds again by its name what it has itself: an object of its
own, a module, or a function or class of a module. A value that is neither is lost, if it is of no use
after its cell; otherwise the cell has to run in the kernel.
"""

from __future__ import annotations

import ast
import io
import sys
from collections.abc import Set
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple, Union

from ..values.objects import address_of, class_module, is_class, name_of
from . import plain_pickle
from .fork_messages import (
    ValueRow,
    imported_modules,
    is_harmless_module,
    is_named,
    may_name_module,
    names_other_module,
    replaces_callable,
)
from .namespace_changes import NamespaceChanges
from .plain_codecs import NotTransferableError
from .shared_objects import find_shared

_IMMUTABLE_TYPES = (int, float, str, bytes, tuple, type(None))
_HELPER_MODULES = (
    *("pandas.core.groupby.", "pandas.api.typing.", "pandas.core.window."),
    *("_csv.", "csv.", "itertools.", "re.", "ast.", "io.", "functools.", "operator."),
)
"""Modules whose objects are steps on the way to a result, and those in them; each ends with a dot."""
_DRAWING_PACKAGES = ("matplotlib.", "seaborn.")
"""Beginnings of the names of modules whose objects are drawn, and then not needed."""
_ITERATOR_CLASSES = frozenset(
    (
        *("generator", "map", "filter", "zip", "enumerate", "reversed", "list_iterator"),
        *("dict_keys", "dict_values", "dict_items"),
    )
)
"""Names of classes whose objects are such steps, too."""


class KeptValues(NamedTuple):
    """The new values of a cell, as the kernel gets them."""

    rows: list[ValueRow]
    blocks: list[bytes]
    """Plain data, to which rows refer by position and size."""
    lost_names: list[str]
    """Names whose values stay in the fork, because nobody needs them any more."""
    copied_names: list[str]
    """Names whose values share objects with others in the fork; in the kernel they do not."""
    needs: str
    """What the code wanted to keep and the kernel cannot have, as a clause; or empty."""


class _Unkept(NamedTuple):
    """A value that the kernel cannot have."""

    description: str
    """Its type, or what in it is not plain data."""


_Encoded = Union[bytes, ValueRow, _Unkept]
"""Plain data, what the kernel has already, or neither."""


class ValueKeeper:
    """Encodes the new values of one cell."""

    def __init__(
        self, changes: NamespaceChanges, tree: ast.Module, loaded_modules: Set[str]
    ) -> None:
        """
        Args:
            changes: Has the namespace before the cell.
            tree: The cell's code.
            loaded_modules: The modules that the kernel has loaded.
        """
        self._changes = changes
        self._tree = tree
        self._loaded_modules = loaded_modules
        self._origins = _import_origins(tree)
        self._dumper = plain_pickle.Dumper()

    def list_modules(self) -> list[str]:
        """Return the modules that the code imports, and that the kernel may import, too."""
        return [name for name in imported_modules(self._tree) if self._is_loadable(name)]

    def encode(self, new_values: dict[str, object], status: str, start: int) -> KeptValues:
        """Encode the new values.

        Args:
            new_values: The values by name.
            status: How the cell ended.
            start: Where their data begins in that of the message, in bytes.
        """
        rows: list[ValueRow] = []
        blocks: list[bytes] = []
        lost_names: list[str] = []
        copied_names: list[str] = []
        data_values: dict[str, Any] = {}
        needs = ""
        read_names = _read_names(self._tree)
        for name, value in new_values.items():
            try:
                encoded = self._encode(name, value)
            except plain_pickle.TransferTooLargeError as error:
                return KeptValues([], [], [], [], str(error))
            if isinstance(encoded, bytes):
                rows.append(ValueRow(name, "data", [start, len(encoded)]))
                blocks.append(encoded)
                start += len(encoded)
                data_values[name] = value
            elif isinstance(encoded, ValueRow):
                rows.append(encoded)
            elif status != "ok" or _is_helper(value, is_read=name in read_names):
                lost_names.append(name)
            elif not needs:
                needs = f"wanted to keep {name} ({encoded.description}), which is not plain data"
        if rows and not needs:
            earlier_values = list(self._changes.before.values())
            copied_names.extend(
                find_shared(data_values, self._changes.names_by_address, earlier_values)
            )
        return KeptValues(rows, blocks, lost_names, copied_names, needs)

    def _encode(self, name: str, value: object) -> _Encoded:
        """Return how the kernel gets a new value.

        Args:
            name: The variable.
            value: Its value.

        Raises:
            plain_pickle.TransferTooLargeError: All values together are too large.
        """
        # A name by which the user calls something must not come to mean another function.
        hides_callable = replaces_callable(name, self._changes.before)
        if not (hides_callable and callable(value)):
            row = self._same_object(name, value)
            if row is not None:
                return row
        if isinstance(value, ModuleType):
            module = _module_name(value)
            if not hides_callable and self._is_importable(name, value):
                return ValueRow(name, "module", [module])
            return _Unkept(f"the module {module}")
        if not hides_callable and callable(value):
            row = self._part_of_module(name, value)
            if row is not None:
                return row
        return self._dump(value)

    def _same_object(self, name: str, value: object) -> ValueRow | None:
        """Return the row of an object that the kernel has as a variable; None if it has none."""
        # Python may use one object for equal values.
        if isinstance(value, _IMMUTABLE_TYPES):
            return None
        existing_name = self._changes.names_by_address.get(address_of(value))
        if existing_name is None:
            return None
        if isinstance(value, ModuleType) and names_other_module(name, _module_name(value)):
            return None
        return ValueRow(name, "same", [existing_name])

    def _is_importable(self, name: str, module: ModuleType) -> bool:
        """Return whether the kernel may import a module under a name."""
        module_name = _module_name(module)
        is_registered = sys.modules.get(module_name) is module
        return (
            is_registered
            and self._is_loadable(module_name)
            and may_name_module(name, module_name, self._tree)
        )

    def _part_of_module(self, name: str, value: object) -> ValueRow | None:
        """Return the row of a function or class that the code has imported from a module; None for
        others."""
        origin = self._origins.get(name, "")
        if not origin or not self._is_loadable(origin):
            return None
        # A class may have another name in the cell; a function may not.
        attribute = value.__name__ if isinstance(value, type) else name
        is_from_module = vars(sys.modules[origin]).get(attribute) is value
        if is_from_module and is_named(value, attribute):
            return ValueRow(name, "of", [origin, attribute])
        return None

    def _is_loadable(self, module: str) -> bool:
        """Return whether the kernel has a module, or may import it."""
        is_allowed = module in self._loaded_modules or is_harmless_module(module)
        return is_allowed and module in sys.modules

    def _dump(self, value: object) -> bytes | _Unkept:
        try:
            return self._dumper.dump(value)
        except plain_pickle.TransferTooLargeError:
            raise
        except NotTransferableError as error:
            return _Unkept(str(error))
        except Exception:  # raised by code of the user's classes
            return _Unkept(name_of(type(value)))


def _module_name(module: ModuleType) -> str:
    return str(vars(module).get("__name__"))


def _read_names(tree: ast.Module) -> set[str]:
    """Return the names that code reads."""
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _import_origins(tree: ast.Module) -> dict[str, str]:
    """Return the modules from which code imports names, by name."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in sys.modules and not node.level
        for alias in node.names
    }


def _is_helper(value: Any, *, is_read: bool) -> bool:
    """Return whether a value is of no use after its cell.

    Args:
        is_read: Whether the cell reads its name.
    """
    cls = type(value)
    module = class_module(cls)
    if module.startswith(_DRAWING_PACKAGES):
        return True
    with suppress(Exception):  # an object of the code may raise anything
        if isinstance(value, io.IOBase) and value.closed:
            return True
    # What the cell does not use itself is meant for later.
    if not is_read:
        return False
    is_of_cell = module == "__main__" or (is_class(value) and class_module(value) == "__main__")
    is_step = name_of(cls) in _ITERATOR_CLASSES or f"{module}.".startswith(_HELPER_MODULES)
    return is_of_cell or callable(value) or is_step
