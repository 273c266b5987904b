"""What a cell sets outside its namespace: settings, attributes of libraries, threads. In a locked
fork it is lost, and the model is told."""

from __future__ import annotations

import ast
import itertools
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Callable

from ..magic.syntax import parse_python
from ..undo.lasting_calls import find_lasting_calls
from ..undo.libraries import LibrarySnapshot, add_snapshots, take_library_snapshots
from ..undo.opaque import file_class
from ..undo.process_state import ProcessState
from ..undo.user_threads import ThreadSnapshot
from ..values.objects import MISSING, address_of, class_module, get_if_loaded, is_class
from .loaded_modules import watch_imports

MAX_LABELS = 20
"""Names of changed states that are reported."""
_SET_BY_LIBRARIES = frozenset(("sys.meta_path", "sys.path_hooks", "matplotlib.units.registry"))
"""States that libraries change when they are imported."""
_SYSTEM_MODULES = ("ctypes.", "os.")
"""What their functions do for longer than a call is refused to a fork, or only reads."""
_LASTING_SYSTEM_CALLS = frozenset(("os.register_at_fork",))
"""Functions of `_SYSTEM_MODULES` whose effect a fork does lose."""
_SETTING_WORDS: dict[str, tuple[str, ...]] = {
    "random": ("seed", "set_state", "setstate"),
    "torch.random": ("seed", "set_state", "setstate"),
    "numpy.random": ("seed", "set_state", "setstate"),
    "decimal context": ("context", "Context"),
    **dict.fromkeys(
        (
            *("mimetypes.inited", "mimetypes._db", "mimetypes.suffix_map"),
            *("mimetypes.encodings_map", "mimetypes.types_map", "mimetypes.common_types"),
        ),
        ("add_type", "init", "_map", "common_types", "_db", "attr", "dict", "vars"),
    ),
}
"""Words by label. Code without any of them changes the state only by using it: nobody minds that
random numbers come again."""


class StateRecorder:
    """Takes the place of the undo history in a fork: it is told when code may change objects."""

    def __init__(
        self,
        namespace: dict[str, Any],
        source: str,
        list_scheduled: Callable[[], Sequence[Any]] = tuple,
    ) -> None:
        """
        Args:
            namespace: The user's namespace.
            source: The code.
            list_scheduled: Returns the tasks and callbacks of the event loop that wait.
        """
        self._namespace = namespace
        self._list_scheduled = list_scheduled
        self._quoted_modules = _quoted_modules(source)
        self._mentioned: tuple[str, ...] = ()
        """The names in the code."""
        self._process: ProcessState | None = None
        self._threads: ThreadSnapshot | None = None
        self._finalizers: tuple[Any, ...] = ()
        """The `weakref.finalize` objects that wait for the end of another object. They are kept alive,
        so that a new one gets another address."""
        self._libraries: list[LibrarySnapshot] = []
        self._plot_settings: dict[Any, Any] | None = None
        self._libraries_lock = threading.RLock()
        """Held while snapshots of libraries are added, because threads may also import."""

    def begin(self, cell: int) -> None:
        """Do nothing: a fork runs one cell."""

    def take_checkpoint(self, mentioned: tuple[str, ...]) -> None:
        """Note the state before the code runs.

        Args:
            mentioned: The names in it.
        """
        self._mentioned = mentioned = (*mentioned, *self._quoted_modules)
        self._libraries = take_library_snapshots(mentioned, self._namespace, _is_of_cells)
        self._process = ProcessState(mentioned)
        self._threads = ThreadSnapshot()
        self._finalizers = _read_finalizers()
        self._plot_settings = _read_plot_settings()
        watch_imports(self._note_loaded_module)

    def _note_loaded_module(self, module: str) -> None:
        """Note the state of modules that have just been loaded.

        Args:
            module: The one that the code itself imports; empty if a library imports one.
        """
        assert self._process is not None
        names = [*self._mentioned, *filter(None, (module, *module.split(".")))]
        noted_holders = {address_of(library.holder) for library in self._libraries}
        snapshots = take_library_snapshots(names, self._namespace, _is_of_cells, noted_holders)
        with self._libraries_lock:
            add_snapshots(self._libraries, snapshots)
        self._process.note_loaded_libraries()
        if self._plot_settings is None:
            self._plot_settings = _read_plot_settings()

    def changed_labels(self, source: str) -> list[str]:
        """Return names of what differs now, at most `MAX_LABELS`.

        Args:
            source: The code; of some states, it decides whether a change was meant.
        """
        if self._process is None or self._threads is None:
            return []
        labels = [
            *self._process_labels(self._process),
            *itertools.chain.from_iterable(map(self._library_labels, self._libraries)),
        ]
        if self._plot_settings != _read_plot_settings():
            labels.append("matplotlib.rcParams")
        if self._threads.find_started_threads():
            labels.append("threads")
        if self._list_scheduled():
            labels.append("asyncio tasks")
        if not _addresses(_read_finalizers()) <= _addresses(self._finalizers):
            labels.append("weakref.finalize")
        set_labels = [label for label in labels if _may_set(source, label)]
        return list(dict.fromkeys(set_labels))[:MAX_LABELS]

    def _process_labels(self, process: ProcessState) -> list[str]:
        """Return the names of what the process has otherwise now: settings, calls, open files."""
        mentioned_values = [self._namespace.get(name) for name in self._mentioned]
        changes = process.find_changes(self._mentioned, mentioned_values)
        labels = [label for label in changes if label not in _SET_BY_LIBRARIES]
        for call in find_lasting_calls(self._mentioned, mentioned_values):
            is_of_system = call.name.startswith(_SYSTEM_MODULES)
            if not is_of_system or call.name in _LASTING_SYSTEM_CALLS:
                labels.append(call.name)
        descriptor_changes = process.find_descriptor_changes((), ())
        # A file that was read or written is named itself, and has its name in the label.
        labels += [change.name for change in descriptor_changes if "(" not in change.name]
        return labels

    def _library_labels(self, library: LibrarySnapshot) -> Iterator[str]:
        """Yield the names of what a module or class of a library has otherwise now."""
        for name, _, _ in library.iter_changes(self._mentioned):
            yield f"{library.label}.{name}"
        if library.registry_action() is not None:
            yield library.label
        for container in library.contents:
            if container.find_change() is not None:
                yield container.label


def _may_set(source: str, label: str) -> bool:
    """Return whether code may have changed a state for later, and not only by using it."""
    words = _SETTING_WORDS.get(label)
    return words is None or any(word in source for word in words)


def _quoted_modules(source: str) -> list[str]:
    """Return the loaded modules whose names are texts in code, as in `sys.modules["json"]`."""
    tree = parse_python(source)
    if tree is None:
        return []
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    texts = [text for text in constants if type(text) is str]
    return [text for text in dict.fromkeys(texts) if text in sys.modules]


def _read_finalizers() -> tuple[Any, ...]:
    """Return the `weakref.finalize` objects that wait for the end of another object."""
    registry = getattr(weakref.finalize, "_registry", {})
    return tuple(dict(registry))


def _addresses(values: Iterable[object]) -> set[int]:
    return set(map(address_of, values))


def _read_plot_settings() -> dict[Any, Any] | None:
    """Return the settings of matplotlib by their names; None if it is not loaded."""
    settings = get_if_loaded("matplotlib", "rcParams")
    if settings is MISSING:
        return None
    # The backend is chosen when the first figure is drawn.
    return {key: value for key, value in dict.items(settings) if not key.startswith("backend")}


def write_waiting_text(values: Iterable[object]) -> None:
    """Write the text that waits in open files.

    A locked fork may not, so that its system says what it has written; it must not begin with text
    that the kernel has not written yet.
    """
    for value in values:
        file = file_class(type(value))
        if file is not None and hasattr(file, "buffer"):
            with suppress(OSError, ValueError):  # not for writing, or closed
                file.flush(value)


def _is_of_cells(value: Any) -> bool:
    """Return whether a class is defined in a cell: changes in it count as those of a variable."""
    return is_class(value) and class_module(value) == "__main__"
