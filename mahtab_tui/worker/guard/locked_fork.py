"""The process of a locked fork: locks itself, runs a cell, and reports what the kernel may have of it.

`locked.run_locked` forks it, and `fork_observer` is the kernel's other end of its channel.
"""

from __future__ import annotations

import ast
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cells.awaiting import EventLoop
from ..cells.executor import Executor
from ..cells.outcomes import Outcome
from ..link.descriptors import duplicate_high
from ..link.host import Host
from ..magic.syntax import Reloading
from ..values.objects import name_of
from . import read_only
from .fork_messages import MAX_LOST_NAMES, MAX_NAMES, encode_message, parse_cell
from .fork_needs import ForkNeeds
from .kept_values import ValueKeeper
from .lost_state import StateRecorder, write_waiting_text
from .namespace_changes import NamespaceChanges
from .readable_paths import ReadablePaths
from .shared_objects import note_earlier_objects

if TYPE_CHECKING:
    from ..cells.environment import CellEnvironment
    from ..link.host_calls import HostCalls

_LOWEST_FD = 500
"""The fork's own descriptors begin here, above those that code usually opens."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)
"""Code whose annotations are not those of the namespace."""


class _Texts(NamedTuple):
    """The texts of a cell's outcome, for a message."""

    rows: list[list[Any]]
    """For each text its kind, and its start and size in bytes in `data`."""
    data: bytes


class LockedFork:
    """Runs in the forked process, which ends after it."""

    # Set by `_prepare`, just before the code runs.
    _state: StateRecorder
    """What the code sets outside the namespace."""
    _changes: NamespaceChanges
    """What the code changes in the namespace."""

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
        self._needs = ForkNeeds()
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
        self._changes = NamespaceChanges(executor.namespace)
        note_earlier_objects()
        # The report reads the cell's error here, not that of an earlier cell.
        sys.last_value = None
        self._needs.watch(readable.private)

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
        self._needs.note("call", f"{name}()")
        raise RuntimeError(f"{name}() cannot be called here")

    def _make_report(self, source: str, outcome: Outcome) -> tuple[dict[str, Any], bytes]:
        """Return the message, and its data, that say what the kernel may have of the cell, or why the
        cell must run in the kernel. May raise anything, from objects of the code."""
        sys.stdout.flush()  # what the code printed appears before the end of its cell
        write_waiting_text(list(self._executor.namespace.values()))
        tree = parse_cell(source)
        new_values = self._changes.new_values()
        deleted_names = self._changes.deleted_names()
        lost_names = self._changed_in_place(outcome, new_values)
        lost_names += self._changes.changed_dunder_names(source)
        if not self._keep:
            lost_names += [*new_values, *deleted_names]
        needs = self._first_need(tree, outcome)
        if self._keep and not needs:
            needs = _describe_excess(new_values, deleted_names)
        if needs or not self._keep:
            new_values = {}
            deleted_names = []

        texts = _join_texts(outcome.pieces)
        keeper = ValueKeeper(self._changes, tree, self._loaded_before)
        kept_values = keeper.encode(new_values, outcome.status, len(texts.data))
        lost_names += kept_values.lost_names
        message = {
            "op": "done",
            "status": outcome.status,
            "pieces": texts.rows,
            "frames": outcome.frames,
            "needs": needs or kept_values.needs,
            "values": kept_values.rows,
            "modules": keeper.list_modules() if self._keep else [],
            # One more than allowed, so that the kernel refuses them as well.
            "deleted": deleted_names[: MAX_NAMES + 1],
            "lost": list(dict.fromkeys(lost_names))[:MAX_LOST_NAMES],
            "copied": kept_values.copied_names,
            "settings": self._changed_settings(tree, source),
        }
        return message, b"".join((texts.data, *kept_values.blocks))

    def _first_need(self, tree: ast.Module, outcome: Outcome) -> str:
        """Return what the code wanted and did not get, as a clause; empty if it got everything."""
        error = getattr(sys, "last_value", None) if outcome.status == "error" else None
        return self._needs.first(tree, error)

    def _changed_in_place(self, outcome: Outcome, new_values: dict[str, object]) -> list[str]:
        """Return the names whose objects were changed in place."""
        changed_names = [
            change["name"]
            for change in outcome.changes
            if change["change"] in ("changed", "perhaps", "rebound")
        ]
        names_before = self._changes.before
        return [name for name in changed_names if name in names_before and name not in new_values]

    def _changed_settings(self, tree: ast.Module, source: str) -> list[str]:
        """Return what the code has set outside the variables of the namespace, which stays in the
        fork."""
        settings = self._changes.changed_keys()
        if _annotates_variables(tree):
            settings.append("__annotations__")
        settings += [f"builtins.{name}" for name in self._environment.repaired_builtins]
        settings += self._state.changed_labels(source)
        return settings

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


def _join_texts(pieces: list[tuple[str, str]]) -> _Texts:
    rows: list[list[Any]] = []
    data = b""
    for kind, text in pieces:
        encoded = text.encode("utf-8", "replace")
        rows.append([kind, len(data), len(encoded)])
        data += encoded
    return _Texts(rows, data)


def _annotates_variables(tree: ast.AST) -> bool:
    """Return whether code annotates variables of the namespace, as in ``a: int = 1``."""
    pending = [tree]
    for node in pending:  # which grows meanwhile
        if isinstance(node, ast.AnnAssign) and node.simple:
            return True
        if not isinstance(node, _SCOPES):
            pending += ast.iter_child_nodes(node)
    return False
