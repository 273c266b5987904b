"""Makes an object of each type of the standard library in a kernel, changes and digests them.
Imports nothing of the tests."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import json
import operator
import re
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

_EXCLUDED = frozenset(
    "antigravity this idlelib turtledemo turtle tkinter lib2to3 test distutils ensurepip venv pty tty curses readline webbrowser site"
    " sitecustomize usercustomize nntplib smtpd asyncore asynchat imp msilib winreg winsound nt msvcrt crypt spwd rlcompleter faulthandler"
    " smtplib ftplib telnetlib imaplib poplib pdb bdb code codeop cmd trace profile cProfile pydoc doctest unittest socketserver xmlrpc".split()
)
_NEEDED = {
    "builtins": "[1] | {1: 2} | {1} | bytearray(b'a') | (x for x in 'abc') | iter([1, 2, 3]) | zip([1, 2], 'ab') | enumerate('abc')"
    " | reversed([1, 2]) | map(str, [1, 2]) | filter(None, [1, 2]) | memoryview(bytearray(b'abc')) | iter({1: 2, 3: 4}) | iter('abc')"
    " | property() | slice(1) | OSError(1, 'a') | SyntaxError('a', ('f', 1, 2, 'x')) | StopIteration(3) | ImportError('a', name='b')",
    "array": "array.array('i', [1, 2])",
    "asyncio": "asyncio.Event() | asyncio.Queue()",
    "collections": "collections.deque([1, 2], 5) | collections.Counter('aab') | collections.OrderedDict(a=1) | collections.defaultdict(list)"
    " | collections.ChainMap({1: 2}) | collections.UserList([1]) | iter(collections.deque([1, 2]))",
    "contextvars": "contextvars.ContextVar('v')",
    "csv": "csv.reader(['a,b', 'c,d']) | csv.DictReader(['a,b', 'c,d'])",
    "ctypes": "(ctypes.c_int * 2)(1, 2) | ctypes.c_char_p(b'a') | ctypes.pointer(ctypes.c_int(1))",
    "datetime": "datetime.date(2020, 1, 2) | datetime.timedelta(1)",
    "functools": "functools.partial(print, [1]) | functools.lru_cache(len)",
    "hashlib": "hashlib.sha256(b'a') | hashlib.blake2b(b'a')",
    "hmac": "hmac.new(b'a', b'b', 'sha256')",
    "io": "io.StringIO('abc') | io.BytesIO(b'abc') | io.TextIOWrapper(io.BytesIO(b'abc')) | io.BufferedReader(io.BytesIO(b'abc'))",
    "itertools": "itertools.count(1) | itertools.cycle('ab') | itertools.chain('ab', 'cd') | itertools.islice('abc', 3) | itertools.repeat(1, 3)"
    " | itertools.product('ab', 'c') | itertools.groupby('aab') | itertools.tee('abc')[0] | itertools.accumulate([1, 2]) | itertools.permutations('abc')",
    "mmap": "mmap.mmap(-1, 16)",
    "queue": "queue.Queue() | queue.SimpleQueue()",
    "re": "re.compile('a').scanner('aaa')",
    "sqlite3": "sqlite3.connect(':memory:')",
    "threading": "threading.local() | threading.Lock() | threading.Condition() | threading.Semaphore(2) | threading.Event()",
    "types": "types.SimpleNamespace(a=1) | types.MappingProxyType({1: 2}) | types.CellType(1)",
    "xml.etree.ElementTree": "xml.etree.ElementTree.fromstring('<a b=\"1\"><c/></a>')",
    "zlib": "zlib.compressobj() | zlib.decompressobj()",
    "struct": "struct.Struct('i')",
    "weakref": "weakref.WeakValueDictionary() | weakref.WeakSet()",
}
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_CHANGES: tuple[Any, ...] = (
    *(
        lambda value, name=name: getattr(value, name)()
        for name in "pop popleft clear reverse __next__ read getvalue set acquire reset close".split()
    ),
    *(
        lambda value, name=name: getattr(value, name)(3)
        for name in "append add push put put_nowait appendleft update seek write send set feed".split()
    ),
    *(
        lambda value, name=name: getattr(value, name)(b"xy")
        for name in "update write feed compress extend".split()
    ),
    *(
        lambda value, name=name: getattr(value, name)("xy")
        for name in "write feed add_option append update set setFormat".split()
    ),
    lambda value: operator.setitem(value, 0, 7),
    lambda value: operator.setitem(value, "k", 7),
    lambda value: setattr(value, "extra", 7),
    lambda value: value(5),
)

_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)

_UNSTABLE = "__weakref__ __doc__ gi_frame __annotations__ __builtins__ __globals__".split()


def make() -> dict[str, Any]:
    instances: dict[str, Any] = {}
    warnings.simplefilter("ignore")
    for module_name in sorted({*sys.stdlib_module_names, *_NEEDED} - _EXCLUDED):
        if module_name.startswith("_"):
            continue
        with contextlib.suppress(Exception):
            module = importlib.import_module(module_name)
            for name, value in _made(module, module_name):
                instances[f"of_{module_name.replace('.', '_')}_{name}"] = value
    return instances


def _made(module: types.ModuleType, module_name: str) -> Iterator[tuple[str, Any]]:
    package = module_name.partition(".")[0]
    for number, text in enumerate(_NEEDED.get(module_name, "").split(" | ")):
        if text:
            yield str(number), eval(text, {package: sys.modules[package]})
    for name, cls in list(vars(module).items()):
        if (
            inspect.isclass(cls)
            and cls.__module__.partition(".")[0] == package
            and name not in ("Thread", "Popen", "Tk", "_Printer")
        ):
            with contextlib.suppress(BaseException):
                yield name, cls()


def change(value: Any) -> None:
    apply_change: Any
    for apply_change in _CHANGES:
        with contextlib.suppress(Exception):
            if isinstance(value, (int, str, type, types.ModuleType)) or not _can_block(value):
                apply_change(value)
    names = [
        name
        for base in type(value).__mro__
        for name, slot in vars(base).items()
        if type(slot) in _DESCRIPTORS
    ]
    for name in dict.fromkeys(names):
        if name not in ("__dict__", "__class__", "__weakref__"):
            with contextlib.suppress(Exception):
                attribute = getattr(value, name)
                if isinstance(attribute, int):
                    attribute = not attribute if isinstance(attribute, bool) else attribute + 1
                else:
                    attribute = "other"
                setattr(value, name, attribute)


def _can_block(value: Any) -> bool:
    return type(value).__module__ in ("subprocess", "multiprocessing", "selectors", "select") or (
        hasattr(value, "fileno") and not hasattr(value, "getvalue")
    )


def digest(value: Any, depth: int = 3) -> str:
    if value is None or (
        isinstance(value, (bool, int, float, str, bytes)) and type(value).__module__ == "builtins"
    ):
        return repr(value)[:200]
    lines = [type(value).__qualname__]
    if depth == 0 or isinstance(
        value, (type, types.ModuleType, types.CodeType, types.BuiltinFunctionType, types.FrameType)
    ):
        return lines[0]
    with contextlib.suppress(Exception):
        lines.append(_ADDRESS.sub("", repr(value))[:400])
    with contextlib.suppress(Exception):
        lines.append(
            _ADDRESS.sub("", repr(copy.copy(value).__reduce_ex__(2)))[:400]
            if hasattr(value, "__next__")
            else ""
        )
    if (
        not hasattr(value, "__next__")
        and hasattr(value, "__iter__")
        and not hasattr(value, "fileno")
    ):
        with contextlib.suppress(Exception):
            lines += [digest(element, depth - 1) for element in [*value][:20]]
    for base in type(value).__mro__:
        for name, slot in vars(base).items():
            if type(slot) in _DESCRIPTORS and not re.match("_[^_]", name) and name not in _UNSTABLE:
                with contextlib.suppress(Exception):
                    slot_value = slot.__get__(value)
                    names = sorted(slot_value) if isinstance(slot_value, dict) else []
                    lines += [
                        f"{name}.{key} {digest(slot_value[key], depth - 1)}" for key in names
                    ] or [f"{name} {digest(slot_value, depth - 1)}"]
    for name in "getvalue tell hexdigest qsize locked is_set getstate cache_info".split():
        with contextlib.suppress(Exception):
            lines.append(f"{name} {getattr(value, name)()!r:.3000}")
    if type(value) is types.GeneratorType:
        lines.append(str(value.gi_frame and value.gi_frame.f_lasti))
    return "\n".join(lines)


def write(values: dict[str, Any], path: str) -> None:
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        json.dump({name: digest(value) for name, value in values.items()}, file)
