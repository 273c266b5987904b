"""A locked fork: runs a cell in it, and reports what the kernel may have of it."""

from __future__ import annotations

import ast
import errno
import io
import keyword
import os
import re
import socket
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cells.awaiting import EventLoop
from ..cells.executor import Executor, Outcome
from ..link.descriptors import duplicate_high
from ..link.host import Host
from ..magic.syntax import Reloading
from ..values.objects import address_of, class_module, is_class, name_of
from ..values.variables import HIDDEN_NAMES
from . import database_errors, plain_pickle, read_only
from .database_errors import DatabaseErrors
from .fork_messages import (
    MAX_LOST_NAMES,
    MAX_NAMES,
    encode_message,
    imported_modules,
    is_harmless_module,
    is_named,
    may_name_module,
    names_other_module,
    parse_cell,
    replaces_callable,
    to_clause,
)
from .lost_state import MAX_LABELS, StateRecorder, write_waiting_text
from .plain_codecs import NotTransferableError
from .private_places import PrivateFileGuard, ReadablePaths, is_env_file, is_private_anywhere
from .shared_objects import find_shared, note_earlier_objects
from .side_effects import is_ignored_path, read_side_effect, to_text

if TYPE_CHECKING:
    from ..cells.environment import CellEnvironment
    from ..link.host_calls import HostCalls

MAX_OPENED_PATHS = 1_000
_MAX_REFUSED_ACTIONS = 20
"""Refused actions that are noted; only the first is reported."""
_FOLDER_EVENTS = frozenset(("os.listdir", "os.scandir"))
"""Audit events of reading a folder."""
_MAX_PATH_CHARS = 1_000
"""Longer texts in code are not looked for in the file system."""
_MAX_KEY_CHARS = 200
"""Characters of a key of the namespace that is no name."""
_MAX_TARGET_CHARS = 200
"""Characters of a path or another object of a refused action."""

_LOWEST_FD = 500
"""The fork's own descriptors begin here, above those that code usually opens."""
_IMMUTABLE_TYPES = (int, float, str, bytes, tuple, type(None))
_MISSING = object()

_SET_BY_PYTHON = frozenset(
    "__builtins__ __warningregistry__ __annotations__ __annotate__"
    " __conditional_annotations__".split()
)
"""Names that Python itself sets while a cell runs."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)
"""Code whose annotations are not those of the namespace."""

_HELPER_MODULES = tuple(
    "pandas.core.groupby. pandas.api.typing pandas.core.window. _csv csv itertools re ast io"
    " functools operator".split()
)
"""Beginnings of the names of modules whose objects are steps on the way to a result."""
_ITERATOR_CLASSES = frozenset(
    "generator map filter zip enumerate reversed list_iterator dict_keys dict_values"
    " dict_items".split()
)
"""Names of classes whose objects are such steps too."""

_REFUSAL_ERRNOS = frozenset(
    (errno.EPERM, errno.EACCES, errno.EBADF, errno.EROFS, errno.EFBIG, errno.ENOTSOCK)
)
_REFUSAL_WORDS = re.compile(
    r"permi(?:ssion|tted)|denied|read-?only database|unable to open|disk I/O|bad file descriptor"
    r"|database is locked",
    re.IGNORECASE,
)


class _EncodedValues(NamedTuple):
    """The new values of a cell, as the kernel gets them."""

    rows: list[list[Any]]
    """For each new value its name, a form, and the fields of that form (see
    `LockedFork._encode`)."""
    blocks: list[bytes]
    """Plain data, to which rows refer by position and size."""
    lost_names: list[str]
    """Names whose values stay in the fork, because nobody needs them any more."""
    copied_names: list[str]
    """Names whose values share objects with others in the fork; in the kernel they do not."""
    needs: str
    """What the code wanted to keep and the kernel cannot have, as a clause; or empty."""


class LockedFork:
    """Runs in the forked process, which ends after it."""

    # Set by `_prepare`, just before the code runs.
    _state: StateRecorder
    """What the code sets outside the namespace."""
    _tree: ast.Module
    """The cell's code; set by `_make_report`."""
    _before: dict[str, Any]
    """The namespace before the cell."""
    _names_by_address: dict[int, str]
    """The names of the objects in it."""

    def __init__(
        self,
        executor: Executor,
        environment: CellEnvironment,
        calls: HostCalls,
        channel: int,
        *,
        keep: bool,
    ) -> None:
        """Take over a process that has just been forked.

        Args:
            executor: The kernel's.
            environment: The kernel's.
            calls: The kernel's calls to the host.
            channel: The descriptor to which messages go.
            keep: Whether the kernel gets the cell's new values.
        """
        self._executor = executor
        self._environment = environment
        self._calls = calls
        self._channel = duplicate_high(channel, _LOWEST_FD)
        self._channel_lock = threading.Lock()
        """Held while a thread sends a message and waits for its answer."""
        self._refused_actions: dict[str, None] = {}
        """What the code wanted and did not get, as clauses without "wanted to"."""
        self._database_errors = DatabaseErrors(self._note_database_error)
        self._database_refusal = ""
        """What the first error of a database says that the lock has caused."""
        self._opened: dict[str, None] = {}
        """Paths that the code has opened."""
        self._loaded_before = frozenset(sys.modules)
        self._keep = keep

    def run(
        self, parent_pid: int, output: int, readable: ReadablePaths, cell: int, source: str
    ) -> None:
        """Lock this process, run the code, and report.

        Args:
            parent_pid: The kernel's process.
            output: A descriptor.
            readable: What the code may read.
            cell: The number of the cell.
            source: Its code.
        """
        read_only.leave_parent(parent_pid)
        # What the code prints goes to the kernel; there is nobody to type for it.
        no_input = os.open(os.devnull, os.O_RDONLY)
        for descriptor, standard_stream in ((no_input, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, standard_stream)
        sys.dont_write_bytecode = True
        try:
            read_only.lock(readable, (0, 1, 2, self._channel), self._hand_over)
        except Exception as error:
            self._send({"op": "refused", "reason": str(error) or type(error).__name__})
            return
        self._send({"op": "ready"})
        self._prepare(readable, source)
        outcome = self._executor.run(cell, source)
        try:
            message, data = self._make_report(source, outcome)
        except BaseException as error:  # raised by what the code has left behind
            data = b""
            # The kernel reads no more of a report that has a reason.
            problem = f"left behind what cannot be reported ({name_of(type(error))})"
            message = {"op": "done", "needs": problem}
        self._send(message, data)

    def _hand_over(self, listener: int) -> None:
        """Send the descriptor of a `RefusalListener` to the kernel."""
        channel = socket.socket(fileno=os.dup(self._channel))
        # A cell may have called `socket.setdefaulttimeout`.
        channel.setblocking(True)
        socket.send_fds(channel, [encode_message({"op": "listener"})], [listener])
        channel.close()

    def _prepare(self, readable: ReadablePaths, source: str) -> None:
        """Leave out what is of no use in a fork, and note what the code may change."""
        executor = self._executor
        executor.undo = None
        Reloading.reloader = None
        executor.loop = EventLoop()
        self._state = StateRecorder(executor.namespace, source, executor.loop.list_scheduled)
        executor.state_recorder = self._state
        executor.tracker.use_in_fork(MAX_NAMES)
        self._environment.use_in_fork(executor.loop.make_current)
        self._calls.fork_handler = self._serve_call
        Host.is_locked = True
        self._before = dict(executor.namespace)
        # In reverse, so that the first of several names for an object counts.
        self._names_by_address = {
            address_of(value): name
            for name, value in reversed(self._before.items())
            if type(name) is str and name not in HIDDEN_NAMES
        }
        note_earlier_objects()
        # `_first_need` reads the cell's error here, not that of an earlier cell.
        sys.last_value = None
        guard = PrivateFileGuard(lambda path: self._record_need("look at", path), readable.private)
        guard.install(sys.modules["os"])
        self._database_errors.watch()
        sys.addaudithook(self._audit)

    def _serve_call(self, name: str, args: dict[str, Any]) -> Any:
        """Serve a call to the host. Only displays leave the fork."""
        if name == "display":
            self._environment.flush()
            content = args["data"].encode("utf-8", "replace")
            text = args["text"].encode("utf-8", "replace")
            fields = {field: args[field] for field in ("mime", "name", "action")}
            message = {**fields, "op": "display", "data_size": len(content)}
            self._send(message, content + text, wait_for_answer=True)
            return None
        self._refused_actions.setdefault(f"call {name}()")
        raise RuntimeError(f"{name}() cannot be called here")

    def _audit(self, event: str, args: tuple[object, ...]) -> None:
        """Note what code wants.

        This only explains: the operating system refuses. The exception is files of the environment
        far down in the project, which are refused here.
        """
        if event in database_errors.EVENTS:
            self._database_errors.watch()
        if event == "open" and type(args[0]) is not int:
            path = to_text(args[0])
            if is_env_file(path) or is_private_anywhere(path):
                self._record_need("read", path)
                raise PermissionError(errno.EACCES, "this file may contain secrets", path)
        is_reading = event == "open" or event in _FOLDER_EVENTS
        if is_reading and type(args[0]) is str and len(self._opened) < MAX_OPENED_PATHS:
            self._opened.setdefault(args[0])
        # Libraries may set variables of the environment; only the cell's own code asks for what it
        # sets. Frame 1 is that of `os.environ`, and frame 2 is its caller.
        if event == "os.putenv" and sys._getframe(2).f_code.co_filename.startswith("In ["):
            self._record_need("set the variable", to_text(args[0]))
        elif effect := read_side_effect(event, args):
            self._record_need(effect.verb, effect.target)

    def _note_database_error(self, message: str) -> None:
        """Note an error of a database, if the lock has probably caused it."""
        if not self._database_refusal and _REFUSAL_WORDS.search(message):
            self._database_refusal = f"wanted more than reading ({_shorten(message)})"

    def _record_need(self, verb: str, target: str) -> None:
        """Note what the code wanted to do, and to which path or other object."""
        if len(self._refused_actions) < _MAX_REFUSED_ACTIONS:
            self._refused_actions.setdefault(f"{verb} {target[:_MAX_TARGET_CHARS]}".strip())

    def _make_report(self, source: str, outcome: Outcome) -> tuple[dict[str, Any], bytes]:
        """Return the message, and its data, that say what the kernel may have of the cell, or why the
        cell must run in the kernel. May raise anything, from objects of the code."""
        sys.stdout.flush()  # what the code printed appears before the end of its cell
        write_waiting_text(list(self._executor.namespace.values()))
        tree = parse_cell(source)
        self._tree = tree
        new_values = self._new_values()
        deleted_names = self._deleted_names()
        needs = self._first_need(outcome)
        if self._keep and not needs:
            needs = _describe_excess(new_values, deleted_names)
        lost_names = self._changed_names(outcome, new_values)
        lost_names += self._changed_dunder_names(source)
        if not self._keep:
            lost_names += [*new_values, *deleted_names]
        if needs or not self._keep:
            new_values = {}
            deleted_names = []

        pieces, texts = _join_pieces(outcome.pieces)
        values = self._encode_values(new_values, tree, outcome.status, len(texts))
        lost_names += values.lost_names
        message = {
            "op": "done",
            "status": outcome.status,
            "pieces": pieces,
            "frames": outcome.frames,
            "needs": needs or values.needs,
            "values": values.rows,
            "modules": self._new_modules(tree) if self._keep else [],
            # One more than allowed, so that the kernel refuses them as well.
            "deleted": deleted_names[: MAX_NAMES + 1],
            "lost": list(dict.fromkeys(lost_names))[:MAX_LOST_NAMES],
            "copied": values.copied_names,
            "settings": self._changed_settings(tree, source),
        }
        return message, b"".join((texts, *values.blocks))

    def _changed_settings(self, tree: ast.Module, source: str) -> list[str]:
        """Return what the code has set outside the variables of the namespace, which stays in the
        fork."""
        settings = self._changed_keys()
        if _annotates_variables(tree):
            settings.append("__annotations__")
        settings += [f"builtins.{name}" for name in self._environment.repaired_builtins]
        settings += self._state.changed_labels(source)
        return settings

    def _encode_values(
        self, new_values: dict[str, object], tree: ast.Module, status: str, start: int
    ) -> _EncodedValues:
        """Return the new values for the report.

        Args:
            new_values: The values by name.
            tree: The cell's code.
            status: How the cell ended.
            start: Where their data begins in that of the message, in bytes.
        """
        origins = _import_origins(tree)
        read_names = _read_names(tree)
        rows: list[list[Any]] = []
        blocks: list[bytes] = []
        lost_names: list[str] = []
        copied_values: dict[str, Any] = {}
        needs = ""
        dumper = plain_pickle.Dumper()
        for name, value in new_values.items():
            try:
                encoded = self._encode(name, value, origins.get(name, ""), dumper)
            except plain_pickle.TransferTooLargeError as error:
                return _EncodedValues([], [], [], [], str(error))
            if isinstance(encoded, bytes):
                rows.append([name, "data", [start, len(encoded)]])
                blocks.append(encoded)
                start += len(encoded)
                copied_values[name] = value
            elif isinstance(encoded, list):
                rows.append([name, *encoded])
            elif status != "ok" or _is_helper(value, name in read_names):
                lost_names.append(name)
            elif not needs:
                needs = f"wanted to keep {name} ({encoded}), which is not plain data"
        shared_names: list[str] = []
        if rows and not needs:
            earlier = list(self._before.values())
            shared_names = find_shared(copied_values, self._names_by_address, earlier)
        return _EncodedValues(rows, blocks, lost_names, shared_names, needs)

    def _new_modules(self, tree: ast.Module) -> list[str]:
        """Return the modules that the code imports, and that the kernel may import, too."""
        return [name for name in imported_modules(tree) if self._is_loadable(name)]

    def _is_loadable(self, module: str) -> bool:
        """Return whether the kernel has a module, or may import it."""
        is_allowed = module in self._loaded_before or is_harmless_module(module)
        return is_allowed and module in sys.modules

    def _rebound_names(self) -> Iterator[str]:
        """Yield the names that were bound to another object, or are new."""
        for name, value in list(self._executor.namespace.items()):
            if type(name) is str and self._before.get(name, _MISSING) is not value:
                yield name

    def _new_values(self) -> dict[str, Any]:
        """Return what the cell has bound to names that the user's code may bind."""
        return {
            name: self._executor.namespace[name]
            for name in self._rebound_names()
            if _is_name(name) and not name.startswith("__") and name not in HIDDEN_NAMES
        }

    def _changed_names(self, outcome: Outcome, new_values: dict[str, object]) -> list[str]:
        """Return the names whose objects were changed in place."""
        changed_names = [
            change["name"]
            for change in outcome.changes
            if change["change"] in ("changed", "perhaps", "rebound")
        ]
        return [name for name in changed_names if name in self._before and name not in new_values]

    def _changed_dunder_names(self, source: str) -> list[str]:
        """Return the changed names that begin with two underscores, which Python itself uses.

        Args:
            source: The code; what Python sets only counts if it is named there.
        """
        deleted_names = [
            name
            for name in self._before
            if type(name) is str and name not in self._executor.namespace
        ]
        return [
            name
            for name in (*self._rebound_names(), *deleted_names)
            if name.startswith("__") and (name not in _SET_BY_PYTHON or name in source)
        ]

    def _changed_keys(self) -> list[str]:
        """Return, as code, what of the namespace was set or deleted under a key that is no name.

        At most `MAX_LABELS`, and long keys are cut.
        """
        namespace = dict(self._executor.namespace)
        keys = [key for key in (*namespace, *self._before) if not _is_name(key)]
        changed_keys = [
            key
            for key in dict.fromkeys(keys)
            if namespace.get(key, _MISSING) is not self._before.get(key, _MISSING)
        ]
        return [f"globals()[{_describe_key(key)}]" for key in changed_keys[:MAX_LABELS]]

    def _deleted_names(self) -> list[str]:
        """Return the names that the cell has unbound."""
        return [
            name
            for name in self._before
            if _is_name(name) and name not in self._executor.namespace and not name.startswith("__")
        ]

    def _first_need(self, outcome: Outcome) -> str:
        """Return what the code wanted and did not get, as a clause; empty if it got everything."""
        if self._refused_actions:
            first_action = next(iter(self._refused_actions))
            return f"wanted to {first_action}"

        error = getattr(sys, "last_value", None)
        if outcome.status == "error" and error is not None:
            refusal = _describe_refusal(error)
            if refusal:
                return refusal
        if self._database_refusal:
            return self._database_refusal

        # Libraries that read files without Python's `open` raise errors that the code may hide.
        for path in dict.fromkeys((*self._opened, *_quoted_paths(self._tree))):
            if _is_refused_file(path):
                return f"wanted to read {_shorten(path)}"
        return ""

    def _encode(
        self, name: str, value: object, origin: str, dumper: plain_pickle.Dumper
    ) -> bytes | list[Any] | str:
        """Return how the kernel gets a new value.

        Args:
            name: The variable.
            value: Its value.
            origin: The module that the code imported the name from, or empty.
            dumper: The dumper of the cell's values.

        Returns:
            Plain data as bytes; or a form and its fields, by which the kernel finds the same object
            (``["same", [name]]``, ``["module", [name]]``, ``["of", [module, name]]``); or, for
            other objects, a description of their type.

        Raises:
            plain_pickle.TransferTooLargeError: All values together are too large.
        """
        # A name by which the user calls something must not come to mean another function.
        hides_callable = replaces_callable(name, self._before)
        is_hiding_function = hides_callable and callable(value)
        if not is_hiding_function and not isinstance(value, _IMMUTABLE_TYPES):
            # `_before` keeps the objects alive, so that an address means the same object.
            existing_name = self._names_by_address.get(address_of(value))
            is_misnamed = isinstance(value, types.ModuleType) and names_other_module(
                name, str(vars(value).get("__name__"))
            )
            if existing_name is not None and not is_misnamed:
                return ["same", [existing_name]]

        if isinstance(value, types.ModuleType):
            module = str(vars(value).get("__name__"))
            is_importable = sys.modules.get(module) is value and self._is_loadable(module)
            is_named_rightly = may_name_module(name, module, self._tree)
            if is_importable and is_named_rightly and not hides_callable:
                return ["module", [module]]
            return f"the module {module}"

        if origin and not hides_callable and callable(value) and self._is_loadable(origin):
            # A class may have another name in the cell; a function may not.
            attribute = name
            if isinstance(value, type):
                attribute = value.__name__
            is_from_module = vars(sys.modules[origin]).get(attribute) is value
            if is_from_module and is_named(value, attribute):
                return ["of", [origin, attribute]]

        try:
            return dumper.dump(value)
        except plain_pickle.TransferTooLargeError:
            raise
        except NotTransferableError as error:
            return str(error)
        except Exception:  # raised by code of the user's classes
            return name_of(type(value))

    def _send(
        self, message: dict[str, object], data: bytes = b"", *, wait_for_answer: bool = False
    ) -> None:
        """Send a message and its data to the kernel, from any thread.

        Args:
            message: What it says, as JSON values.
            data: The bytes after it.
            wait_for_answer: Return only when the kernel has handled the message.
        """
        with self._channel_lock:
            for part in (encode_message(message, len(data)), data):
                unwritten = memoryview(part)
                while unwritten:
                    written_bytes = os.write(self._channel, unwritten)
                    unwritten = unwritten[written_bytes:]
            if wait_for_answer:
                os.read(self._channel, 1)


def _describe_excess(new_values: dict[str, object], deleted_names: list[str]) -> str:
    """Return, as a clause, that a cell changes more names than come back; empty if it does not."""
    if len(new_values) > MAX_NAMES:
        return f"makes more than {MAX_NAMES:,} names"
    if len(deleted_names) > MAX_NAMES:
        return f"deletes more than {MAX_NAMES:,} names"
    return ""


def _join_pieces(pieces: list[tuple[str, str]]) -> tuple[list[list[Any]], bytes]:
    """Join texts.

    Returns:
        Of each text: its kind, and its start and size in bytes.
        The bytes of all texts.
    """
    rows: list[list[Any]] = []
    data = b""
    for kind, text in pieces:
        encoded = text.encode("utf-8", "replace")
        rows.append([kind, len(data), len(encoded)])
        data += encoded
    return rows, data


def _is_name(key: object) -> bool:
    return type(key) is str and key.isidentifier() and not keyword.iskeyword(key)


def _describe_key(key: object) -> str:
    """Return a key of the namespace as code, cut if it is long; for an object whose `repr` may be the
    user's, its type."""
    if type(key) in (str, bytes):
        return repr(key[:_MAX_KEY_CHARS])  # type: ignore[index]
    # Python refuses to write numbers of more than a few thousand digits.
    is_small = type(key) is int and abs(key) <= sys.maxsize
    return repr(key) if key is None or is_small else name_of(type(key))


def _annotates_variables(tree: ast.AST) -> bool:
    """Return whether code annotates variables of the namespace, as in ``a: int = 1``."""
    pending = [tree]
    for node in pending:  # which grows meanwhile
        if isinstance(node, ast.AnnAssign) and node.simple:
            return True
        if not isinstance(node, _SCOPES):
            pending += ast.iter_child_nodes(node)
    return False


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


def _is_helper(value: Any, is_read: bool) -> bool:
    """Return whether a value is of no use after its cell.

    Args:
        is_read: Whether the cell reads its name.
    """
    cls = type(value)
    module = class_module(cls)
    if module.startswith(("matplotlib.", "seaborn.")):
        return True
    with suppress(Exception):  # an object of the code may raise anything
        if isinstance(value, io.IOBase) and value.closed:
            return True
    # What the cell does not use itself is meant for later.
    if not is_read:
        return False
    is_of_cell = module == "__main__" or (is_class(value) and class_module(value) == "__main__")
    is_step = name_of(cls) in _ITERATOR_CLASSES or module.startswith(_HELPER_MODULES)
    return is_of_cell or callable(value) or is_step


def _quoted_paths(tree: ast.Module) -> Iterator[str]:
    """Yield the texts in code that name files outside the working folder.

    Texts such as "/" are more often separators than folders.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (str, bytes):
            text = to_text(node.value)  # native functions take bytes
            is_path = len(text) < _MAX_PATH_CHARS and text.startswith(("/", "~/", "../"))
            if is_path and "\0" not in text and not os.path.isdir(os.path.expanduser(text)):
                yield os.path.expanduser(text)


def _shorten(text: str) -> str:
    return to_clause(text)[:_MAX_TARGET_CHARS]


def _is_refused_file(path: str) -> bool:
    """Return whether the lock keeps an existing file from being read.

    The code may have caught the error, so the file is opened again.
    """
    if is_ignored_path(path):
        return False
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno == errno.EACCES
    return False


def _describe_refusal(error: BaseException) -> str:
    """Return what the lock refused, as a clause; empty if the error has another cause."""
    cause: BaseException | None = error
    seen_ids: set[int] = set()
    while cause is not None and id(cause) not in seen_ids:
        seen_ids.add(id(cause))
        if isinstance(cause, OSError) and cause.errno in _REFUSAL_ERRNOS:
            if cause.filename:
                return f"wanted to read {to_text(cause.filename)}"
            return f"wanted more than reading ({cause.strerror})"
        if isinstance(cause, MemoryError):
            return "wanted more memory than a locked fork has"
        # Some libraries raise errors of their own, or without a number, where only the text says what
        # was refused.
        if not isinstance(cause, OSError) or cause.errno is None:
            with suppress(Exception):  # the text may come from user code
                text = str(cause)
                if _REFUSAL_WORDS.search(text):
                    return f"wanted more than reading ({_shorten(text)})"
        cause = cause.__cause__ or cause.__context__
    return ""
