"""Converts variables to bytes, and back."""

from __future__ import annotations

import functools
import io
import json
import linecache
import pickle
import sys
import time
import types
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any, Callable, NamedTuple

from ..former_names import present_name
from ..stdlib import late_import, load_package
from ..undo.fork_writer import UnpicklableError
from ..undo.graph import Graph, Node, ancestors
from ..undo.kinds import Kinds
from ..undo.opaque import opaque_kind
from ..undo.reduction import reduce_object
from ..values.objects import (
    ATOMS,
    MISSING,
    address_of,
    class_dict,
    get_if_loaded,
    is_class,
    is_subclass,
    is_table,
)
from .folder import ProgressCounter

HIDDEN_REASON = "it contains text that was typed hidden"

_MIN_INNER_CHARS = 4
"""Characters from which on a text is found inside others; a shorter one only as a whole string."""
_MIN_ARRAY_BYTES = 8
"""Bytes of a form that does not occur by chance in the memory of arrays."""
_REDACTED_FIELDS = {"name": "(a name that was typed hidden)", "reason": HIDDEN_REASON}
"""What replaces a field; others become empty."""

_UNCHANGING = (
    ("pandas", "Index"),
    ("pandas.core.dtypes.base", "ExtensionDtype"),
    ("numpy", "dtype"),
)

_WALK_TIMEOUT_S = 20.0
"""Seconds for walking through all objects; after that they become one group."""

_CLOUDPICKLE = "mahtab_cloudpickle"
"""Our copy of cloudpickle in the kernel."""
_NAMESPACE = "namespace"
_MEMORY = "memory"
_MISSING = "missing"
_CACHED = functools._lru_cache_wrapper

_LOAD = """
import importlib.util, pickle, sys
sys.path[:] = path
spec = importlib.util.spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
package = sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
sys.modules["__main__"].__dict__.update(pickle.loads(definitions))
"""


class HiddenTexts:
    """The forms of some texts as bytes."""

    def __init__(self, texts: Iterable[str]) -> None:
        hidden_texts = {variant for text in texts for variant in (text, text.strip()) if variant}
        self._short = short = {text for text in hidden_texts if len(text) < _MIN_INNER_CHARS}
        encoded = {form for text in hidden_texts - short for form in _encoded(text)}
        self._in_pickles = encoded | {form for text in short for form in _whole_strings(text)}
        self._in_arrays = {form for form in encoded if len(form) >= _MIN_ARRAY_BYTES}
        self._in_rows = encoded | {repr(text).encode("utf-8", "surrogatepass") for text in short}

    def found_in(self, stream: bytearray, blocks: Iterable[object], pulse: ProgressCounter) -> bool:
        if any(form in stream for form in self._in_pickles):
            return True
        return bool(self._in_arrays) and any(self._is_in(block, pulse) for block in blocks)

    def _is_in(self, block: object, pulse: ProgressCounter) -> bool:
        """Search memory piece by piece, overlapping with the end of the piece before."""
        overlap = max(map(len, self._in_arrays)) - 1
        end = b""
        for piece in pulse.track([block]):
            data = end + piece
            if any(form in data for form in self._in_arrays):
                return True
            end = data[-overlap:]
        return False

    def redact_row(self, row: dict[str, object]) -> dict[str, object]:
        """Replace each field of a row that contains one of the texts: code may also use them as names
        of variables and classes, and an error may quote them."""
        return {
            field: _REDACTED_FIELDS.get(field, "") if self._is_in_field(value) else value
            for field, value in row.items()
        }

    def _is_in_field(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        data = value.encode("utf-8", "surrogatepass")
        return value in self._short or any(form in data for form in self._in_rows)


def _whole_strings(text: str) -> Iterator[bytes]:
    data = text.encode("utf-8", "surrogatepass")
    yield b"\x8c" + bytes([len(data)]) + data
    yield b"C" + bytes([len(data)]) + data


def _encoded(text: str) -> Iterator[bytes]:
    quote = late_import("urllib.parse").quote
    written = {
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        quote(text.encode("utf-8", "surrogatepass")),
    }
    for form in written:
        for encoding in ("utf-8", "utf-16-le", "utf-32-le"):
            yield form.encode(encoding, "surrogatepass")
    data = text.encode("utf-8", "surrogatepass")
    if len(data) >= _MIN_ARRAY_BYTES:
        yield data.hex().encode()
        encode = late_import("base64").b64encode
        for offset in range(3):  # the middle, which does not depend on the text around it
            coded = encode(b"\0" * offset + data)
            yield coded[(4 * offset + 2) // 3 : 4 * ((offset + len(data)) // 3)]


class Group(NamedTuple):
    names: list[str]
    size: int


def group_variables(variables: dict[str, object], namespace: dict[str, object]) -> list[Group]:
    """Sort variables that share objects into groups, the smallest first."""
    graph = Graph(Kinds(namespace), states=False)
    is_atom = {name: address_of(type(value)) in ATOMS for name, value in variables.items()}
    if not graph.add(variables.values(), time.monotonic() + _WALK_TIMEOUT_S):
        size = sum(node.memory.size for node in graph.nodes.values() if node.memory)
        alone = [Group([name], 0) for name in variables if is_atom[name]]
        return [*alone, Group([name for name in variables if not is_atom[name]], size)]
    edges = {address: _edges(graph, node) for address, node in graph.nodes.items()}
    holders: dict[int, list[int]] = {}
    for address, inside in edges.items():
        for child in inside:
            holders.setdefault(child, []).append(address)
    changing = [
        address
        for address, node in graph.nodes.items()
        if _changes(graph, node, holders.get(address, []))
    ]
    sharing = ancestors(changing, holders)
    sets = _DisjointSets()
    for address in sharing:
        for child in sharing.intersection(edges[address]):
            sets.unite(address, child)
    by_root: dict[int, list[str]] = {}
    for name, value in variables.items():
        if is_atom[name]:
            own = -len(by_root) - 1
        else:
            own = address_of(value)
        by_root.setdefault(sets.root(own) if own in sharing else own, []).append(name)
    sizes = dict.fromkeys(by_root, 0)
    for address, node in graph.nodes.items():
        if node.memory is not None:
            root = sets.root(address)
            sizes[root] = sizes.get(root, 0) + node.memory.size
    groups = (Group(names, sizes[root]) for root, names in by_root.items())
    return sorted(groups, key=lambda group: group.size)


def _edges(graph: Graph, node: Node) -> list[int]:
    if _never_changes(node.value):
        return []
    inside = [child for child in node.children if child in graph.nodes]
    if graph.kinds.kind(node.value).is_user_defined:
        inside.append(address_of(type(node.value)))
    return inside


def _changes(graph: Graph, node: Node, holders: list[int]) -> bool:
    """Return whether an object can change in place; functions do not if only classes contain
    them."""
    value = node.value
    if is_class(value) or type(value) is types.ModuleType:
        return False
    if type(value) is types.FunctionType:
        return any(not is_class(graph.nodes[holder].value) for holder in holders)
    if _never_changes(value):
        return False
    kind = graph.kinds.kind(value)
    return is_table(value) or kind.can_change or not kind.known


def _never_changes(value: object) -> bool:
    """Return whether tables freely share such objects, because nobody changes them."""
    return any(
        is_subclass(type(value), get_if_loaded(module, name)) for module, name in _UNCHANGING
    )


class _DisjointSets:
    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def root(self, item: int) -> int:
        above = self._above
        while (higher := above.get(item, item)) != item:
            above[item] = above.get(higher, higher)
            item = above[item]
        return item

    def unite(self, first: int, second: int) -> None:
        self._above[self.root(first)] = self.root(second)


Fill = Callable[[int, memoryview], None]
"""Reads a block by its number. Raises `OSError`."""


class TooLargeError(Exception):
    """The variables are larger than allowed."""


class Pickled(NamedTuple):
    stream: bytearray
    blocks: list[memoryview]


def load_cloudpickle(folder: str, kernel: str = "") -> object:
    """Load our cloudpickle. kernel: identifies this kernel when saving, so that a class has one id
    in all pickles."""
    is_new = _CLOUDPICKLE not in sys.modules
    package = load_package(_CLOUDPICKLE, folder)
    if is_new:
        _keep_slots(package.cloudpickle)
    if kernel:
        tracked_classes = package.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS
        package.cloudpickle._get_or_create_tracker_id = lambda cls: (
            tracked_classes.get(cls) or f"{kernel}-{id(cls):x}"
        )
    return package


def _keep_slots(cloudpickle: Any) -> None:
    """Make classes with their `__slots__`, which cloudpickle (3.1) sets too late."""
    get_arguments = cloudpickle._class_getnewargs
    get_state = cloudpickle._class_getstate

    def class_arguments(cls: type) -> tuple[object, ...]:
        metaclass, name, bases, attributes, *other_arguments = get_arguments(cls)
        # `NamedTuple` sets them itself, and refuses others.
        is_named_tuple = any(base is get_if_loaded("typing", "NamedTuple") for base in bases)
        if "__slots__" in class_dict(cls) and not is_named_tuple:
            attributes = {**attributes, "__slots__": class_dict(cls)["__slots__"]}
        return metaclass, name, bases, attributes, *other_arguments

    def class_state(cls: type) -> tuple[dict[str, object], object]:
        attributes, slots = get_state(cls)
        # Private slots have other names in the class than in `__slots__`.
        without_slots = {
            name: value
            for name, value in attributes.items()
            if type(value) is not types.MemberDescriptorType or value.__objclass__ is not cls
        }
        return without_slots, slots

    cloudpickle._class_getnewargs = class_arguments
    cloudpickle._class_getstate = class_state


def pickle_variables(
    variables: dict[str, object],
    namespace: dict[str, object],
    cloudpickle: Any,
    max_bytes: int,
    pulse: ProgressCounter,
) -> Pickled:
    """Pickle some variables together. max_bytes: bytes. Raises `TooLargeError` and what an object
    raises."""
    blocks: list[memoryview] = []
    of_pickle: list[int] = []
    classes: dict[int, type] = {}  # kept alive, so that no other class gets the id of one
    files: set[str] = set()
    out = _LimitedBuffer(max_bytes)

    def put_out_of_band(memory: memoryview) -> int:
        out.count(memory.nbytes)
        blocks.append(memory)
        return len(blocks) - 1

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> str | None:
            pulse.beat()
            cls = type(value)
            if address_of(cls) in ATOMS:
                return None
            if value is namespace:
                return _NAMESPACE
            if value is blocks:
                return _MEMORY
            if value is MISSING:
                return _MISSING
            if cls is types.CodeType:
                files.add(value.co_filename)
            elif id(cls) not in classes:
                if cls is not _CACHED and (kind := opaque_kind(cls)) is not None:
                    raise UnpicklableError(f"{kind.noun} cannot be saved")
                classes[id(cls)] = cls
            return None

        def reducer_override(self, value: Any) -> Any:
            if type(value) is memoryview:  # cloudpickle converts it to bytes
                raise UnpicklableError("a memoryview cannot be saved")
            reduced = reduce_object(value, namespace)
            if reduced is not NotImplemented:
                return reduced
            if type(value) is _CACHED and value.__module__ == namespace["__name__"]:
                return _cached, (value.__wrapped__, *value.cache_parameters().values())
            if type(value) is get_if_loaded("numpy", "ndarray") and _is_plain(value):
                number = put_out_of_band(_array_memory(value))
                flags = value.flags.c_contiguous, value.flags.writeable
                return _array, (blocks, number, value.shape, value.dtype, *flags)
            return super().reducer_override(value)

    def keep_buffer(buffer: Any) -> None:
        of_pickle.append(put_out_of_band(buffer.raw()))

    Pickler(out, 5, buffer_callback=keep_buffer).dump(variables)
    sources = {
        name: "".join(linecache.getlines(name)) for name in sorted(files) if _is_cell_file(name)
    }
    head = pickle.dumps((sources, of_pickle), 5)
    return Pickled(bytearray(head) + out.data, blocks)


def unpickle_variables(
    stream: bytearray, sizes: list[int], fill: Fill, namespace: dict[str, object]
) -> dict[str, object]:
    """Restore variables after `load_cloudpickle`. sizes: bytes of the blocks. May raise
    anything."""
    data = io.BytesIO(stream)
    sources, of_pickle = pickle.load(data)

    def block(number: int) -> bytearray:
        memory = bytearray(sizes[number])
        fill(number, memoryview(memory))
        return memory

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> object:
            return super().find_class(present_name(module), name)

        def persistent_load(self, name: str) -> object:
            return {_NAMESPACE: namespace, _MEMORY: fill, _MISSING: MISSING}[name]

    variables: dict[str, Any] = Unpickler(data, buffers=map(block, of_pickle)).load()
    for name, source in sources.items():
        entry = len(source), None, source.splitlines(keepends=True), name
        linecache.cache.setdefault(name, entry)
    return variables


class _LimitedBuffer:
    def __init__(self, max_bytes: int) -> None:
        self.data = bytearray()
        self._left = max_bytes

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            self.count(view.nbytes)
            self.data += view
            return view.nbytes

    def count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLargeError


def _is_cell_file(name: str) -> bool:
    cache_entry: Any = linecache.cache.get(name)
    return cache_entry is not None and len(cache_entry) == 4 and cache_entry[1] is None


def _is_plain(array: Any) -> bool:
    return (
        bool(array.size)
        and not array.dtype.hasobject
        and (array.flags.c_contiguous or array.flags.f_contiguous)
    )


def _array_memory(array: Any) -> memoryview:
    return memoryview(array.reshape(-1, order="A").view("u1"))


# Functions that pickles call to recreate objects


def _cached(function: Any, maxsize: int | None, typed: bool) -> object:
    return functools.lru_cache(maxsize, typed)(function)


def _array(
    fill: Fill, number: int, shape: Any, dtype: Any, c_contiguous: bool, writeable: bool
) -> object:
    array = sys.modules["numpy"].empty(shape, dtype, "C" if c_contiguous else "F")
    fill(number, _array_memory(array))
    array.flags.writeable = writeable
    return array


class _Definitions:
    """Loads functions and classes into `__main__` of another process."""

    def __init__(self, definitions: bytes, package: Any) -> None:
        self._names = {
            "path": list(sys.path),
            "name": package.__name__,
            "folder": package.__path__[0],
            "definitions": definitions,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (_LOAD, self._names)


def install(namespace: dict[str, object], folder: str) -> None:
    """Send definitions of `__main__` with each process from now on. folder: of cloudpickle; empty
    if unknown."""
    spawn: Any = late_import("multiprocessing.spawn")
    plain = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = plain(name)
        package = _find_cloudpickle(folder)
        if package is not None and (definitions := _pickle_definitions(namespace, package)):
            data["definitions"] = _Definitions(definitions, package)
        return data

    spawn.get_preparation_data = get_preparation_data


def _find_cloudpickle(folder: str) -> object:
    if not folder:
        spec = late_import("importlib.util").find_spec("cloudpickle")
        if spec is None or not spec.submodule_search_locations:
            return None
        folder = spec.submodule_search_locations[0]
    return load_cloudpickle(folder)


def _pickle_definitions(namespace: dict[str, object], package: Any) -> bytes:
    """The child process reports the others as missing."""
    definitions = {
        name: value for name, value in list(namespace.items()) if _is_cell_definition(value)
    }
    if not definitions:
        return b""
    try:
        return bytes(package.dumps(definitions))
    except Exception:  # a value that a function uses, or a class of the user's
        good = {
            name: value for name, value in definitions.items() if _can_be_pickled(value, package)
        }
        return bytes(package.dumps(good))


def _is_cell_definition(value: object) -> bool:
    if type(value) is not FunctionType and not is_subclass(type(value), type):
        return False
    try:
        return bool(value.__module__ == "__main__")
    except Exception:  # raised by a metaclass of the user's
        return False


def _can_be_pickled(value: object, package: Any) -> bool:
    try:
        package.dumps(value)
    except Exception:
        return False
    return True
