"""What a cell sets outside its namespace: settings, attributes of libraries, threads. In a locked
fork it is lost, and the model is told."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from ..magic.syntax import parse_python
from ..undo.libraries import LibrarySnapshot, take_library_snapshots
from ..undo.opaque import file_class
from ..undo.process_state import ProcessState
from ..undo.side_state import SideState
from ..values.objects import MISSING, class_module, get_if_loaded, is_class

MAX_LABELS = 20
_SET_BY_LIBRARIES = frozenset(("sys.meta_path", "sys.path_hooks", "matplotlib.units.registry"))
_SEEDING = ("seed", "set_state", "setstate")
_SETTERS_OF_NEW_LIBRARIES = {
    "set_option": ("pandas", "pandas options"),
    "set_printoptions": ("numpy", "numpy.get_printoptions"),
    "seterr": ("numpy", "numpy.geterr"),
}
"""Functions of libraries that the cell itself may have loaded, so that there is no state before: the
library, and the label of what they set."""


class StateRecorder:
    """Takes the place of the undo history in a fork: it is told when code may change objects."""

    def __init__(self, namespace: dict[str, Any], source: str) -> None:
        """
        Args:
            namespace: The user's.
            source: The code.
        """
        self._namespace = namespace
        self._quoted_modules = _quoted_modules(source)
        self._mentioned: tuple[str, ...] = ()
        """The names in the code."""
        self._process: ProcessState | None = None
        self._threads: SideState | None = None
        self._libraries: list[LibrarySnapshot] = []
        self._plot_settings: dict[Any, Any] | None = None
        self._loaded_modules: frozenset[str] = frozenset()
        """Those before the code, except `builtins`, which is repaired after each cell."""
        self._new_setters: list[str] = []
        """Keys of `_SETTERS_OF_NEW_LIBRARIES` whose library is not loaded before the code."""

    def begin(self, cell: int) -> None:
        """Do nothing: a fork runs one cell."""

    def take_checkpoint(self, mentioned: tuple[str, ...]) -> None:
        """Note the state before the code runs. mentioned: the names in it."""
        self._mentioned = mentioned = (*mentioned, *self._quoted_modules)
        self._loaded_modules = frozenset(sys.modules) - {"builtins"}
        self._libraries = take_library_snapshots(mentioned, self._namespace, _is_of_cells)
        self._process = ProcessState(mentioned)
        self._threads = SideState(())
        self._plot_settings = _read_plot_settings()
        self._new_setters = [
            name
            for name, (library, _) in _SETTERS_OF_NEW_LIBRARIES.items()
            if name in mentioned and library not in sys.modules
        ]

    def changed_labels(self, source: str) -> list[str]:
        """Return names of what differs now."""
        if self._process is None or self._threads is None:
            return []
        changes = self._process.find_changes(self._mentioned)
        labels = [label for label in changes if label not in _SET_BY_LIBRARIES]
        if not any(word in source for word in _SEEDING):
            # Whoever only draws random numbers does not mind that they come again.
            labels = [label for label in labels if not label.endswith("random")]
        labels += [call.name for call in self._process.find_lasting_calls(self._mentioned)]
        labels += [_SETTERS_OF_NEW_LIBRARIES[name][1] for name in self._new_setters]
        labels += _find_patches(source, self._loaded_modules)
        for library in self._libraries:
            replaced_attributes = library.iter_changes(self._mentioned)
            labels += [f"{library.label}.{name}" for name, _, _ in replaced_attributes]
            if library.registry_action() is not None:
                labels.append(library.label)
            labels += [
                container.label
                for container in library.contents
                if container.find_change() is not None
            ]
        # If the code itself has loaded matplotlib, the settings before are those of its start.
        if (self._plot_settings or _read_plot_settings("rcParamsOrig")) != _read_plot_settings():
            labels.append("matplotlib.rcParams")
        if self._threads.find_started_threads():
            labels.append("threads")
        return list(dict.fromkeys(labels))[:MAX_LABELS]


def _quoted_modules(source: str) -> list[str]:
    """Return the loaded modules whose names are texts in code, as in `sys.modules["json"]`."""
    tree = parse_python(source)
    if tree is None:
        return []
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    texts = [text for text in constants if type(text) is str]
    return [text for text in dict.fromkeys(texts) if text in sys.modules]


def _find_patches(source: str, loaded_modules: frozenset[str]) -> Iterator[str]:
    """Yield the attributes of modules that code sets or deletes, if it has loaded these modules itself,
    so that there is no state before.

    Args:
        source: The code, translated to Python.
        loaded_modules: The modules that were loaded before.
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    modules = dict(imported for node in nodes for imported in _imported_modules(node))
    modules["__builtins__"] = "builtins"
    for node in nodes:
        holder, attribute = _set_attribute(node)
        name = _longest_prefix(holder, modules)
        module = modules.get(name, "")
        if module and module not in loaded_modules:
            yield f"{module}{holder[len(name) :]}.{attribute}"


def _longest_prefix(dotted_name: str, names: Iterable[str]) -> str:
    """Return the longest of some names with which a dotted name begins, such as ``np`` for
    ``np.random``; empty if there is none."""
    prefixes = [name for name in names if f"{dotted_name}.".startswith(f"{name}.")]
    return max(prefixes, key=len, default="")


def _imported_modules(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names under which an import makes modules known, as in the code, and the modules."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name, alias.name
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _set_attribute(node: ast.AST) -> tuple[str, str]:
    """Return what has an attribute that a piece of code sets or deletes, as in the code, and the name of
    the attribute; empty texts if it sets none."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return ast.unparse(node.value), node.attr
    if isinstance(node, ast.Call) and len(node.args) >= 2:
        name = node.args[1]
        is_setter = isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr")
        if is_setter and isinstance(name, ast.Constant):
            return ast.unparse(node.args[0]), str(name.value)
    return "", ""


def _read_plot_settings(name: str = "rcParams") -> dict[Any, Any] | None:
    """Return settings of matplotlib by their names; None if it is not loaded."""
    settings = get_if_loaded("matplotlib", name)
    if settings is MISSING:
        return None
    # The backend is chosen when the first figure is drawn.
    return {key: value for key, value in dict.items(settings) if not key.startswith("backend")}


def write_waiting_text(values: Iterable[object]) -> None:
    """Write the text that waits in open files. A locked fork may not, so that its system says what it
    has written; it must not begin with text that the kernel has not written yet."""
    for value in values:
        file = file_class(type(value))
        if file is not None and hasattr(file, "buffer"):
            with suppress(OSError, ValueError):  # not for writing, or closed
                file.flush(value)


def _is_of_cells(value: Any) -> bool:
    """Return whether a class is defined in a cell: changes in it count as those of a variable."""
    return is_class(value) and class_module(value) == "__main__"
