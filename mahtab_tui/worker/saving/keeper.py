"""Saves the kernel's namespace, and restores what was saved."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import time
from typing import Any, Callable

from ..cells.tracebacks import describe_safely
from ..link.process_facts import python_version
from ..undo.checkpoint_process import Checkpoint, CheckpointError, Rescue, fork
from ..undo.fork_writer import UnpicklableError, run_in_fork
from ..undo.reduction import PythonVersionError
from ..values.objects import MISSING
from ..values.secret_names import is_hidden
from ..values.variables import HIDDEN_NAMES, describe_variable
from .folder import (
    MAX_REASON_CHARS,
    FolderError,
    ProgressCounter,
    SaveFolder,
    compute_digest,
    split_pieces,
)
from .pickling import (
    HIDDEN_REASON,
    Group,
    HiddenTexts,
    TooLargeError,
    group_variables,
    load_cloudpickle,
    pickle_variables,
    unpickle_variables,
)

WRITE_TIMEOUT_S = 900.0
RESCUE_TIMEOUT_S = 60.0
"""For writing what a kernel had when it died. Meanwhile the next kernel waits."""
RESCUE_GRACE_S = 15.0
"""For writing the index after that."""

SMALL_GROUP_BYTES = 16_384
_EACH = 5.0
_TOGETHER = 600.0
"""Seconds for one group without progress, and for all."""
_NICE = 10


class VariableLoader:
    """Restores a file of the index, without overwriting anything that a cell has made."""

    def __init__(self, keeper: Keeper, file: dict[str, Any]) -> None:
        self._keeper = keeper
        self._file = file
        self._left = dict.fromkeys(row["name"] for row in list_variables(file))
        self._missing: dict[str, str] = {}
        self._reason = "reading it was stopped"

    def run(self) -> None:
        try:
            with contextlib.closing(self._keeper.open_folder()) as folder:
                load_cloudpickle(self._keeper.settings["cloudpickle"])
                with folder.open(self._file["name"]) as opened:
                    for group in self._file["groups"]:
                        self._load(opened, group)
        except OSError as error:
            self._reason = f"its file cannot be read ({error.strerror})"
        except FolderError as error:
            self._reason = str(error)

    def missing(self) -> dict[str, str]:
        return {**dict.fromkeys(self._left, self._reason), **self._missing}

    def _load(self, opened: Any, group: dict[str, Any]) -> None:
        """Restore a group. Its variables are bound immediately, because others may need them."""
        namespace = self._keeper.namespace
        at_start = self._keeper.at_start
        try:
            variables = _load_group(opened, group, namespace)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # recreating the user's objects may raise anything
            reason = _failure_reason(error, self._file["python"])
            self._missing.update(dict.fromkeys((row["name"] for row in group["rows"]), reason))
            return
        for name, value in variables.items():
            current_value = namespace.get(name, MISSING)
            if current_value is MISSING or current_value is at_start.get(name, MISSING):
                namespace[name] = value
            else:
                self._missing[name] = "a cell has made a new one since"
            self._left.pop(name, None)


def list_variables(file: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for group in file["groups"] for row in group["rows"]]


def _load_group(opened: Any, group: dict[str, Any], namespace: dict[str, Any]) -> dict[str, object]:
    sizes: list[int] = group["blocks"]
    starts = [*itertools.accumulate(sizes, initial=group["start"] + group["stream"])]
    stream = bytearray(group["stream"])
    _read(opened, group["start"], memoryview(stream))
    if compute_digest([stream]) != group["check"]:
        raise FolderError("its file is damaged: it is not what was written")
    return unpickle_variables(
        stream, sizes, lambda number, memory: _read(opened, starts[number], memory), namespace
    )


def _read(opened: Any, start: int, memory: memoryview) -> None:
    opened.seek(start)
    for piece in split_pieces(memory):
        while piece:
            size = opened.readinto(piece)
            if not size:
                raise FolderError("its file is damaged: it ends too early")
            piece = piece[size:]


def _failure_reason(error: BaseException, python: str) -> str:
    if isinstance(error, FolderError):
        return str(error)
    if isinstance(error, PythonVersionError):
        return f"it contains code of Python {python}, and this is {python_version()}"
    if isinstance(error, ModuleNotFoundError) and type(error.name) is str:
        package = error.name.partition(".")[0]
        return f"its package {package} is missing"
    reason = describe_safely(error).text.strip().splitlines()[-1][:MAX_REASON_CHARS]
    return f"it cannot be read ({reason}); it was written by Python {python}"


class Keeper:
    """Saves one namespace. Used on the thread that runs the cells, except for `index`."""

    def __init__(
        self,
        namespace: dict[str, Any],
        settings: dict[str, Any],
        at_start: dict[str, Any],
        hidden_lines: list[str],
    ) -> None:
        """settings: folder, key (hex), megabytes, cloudpickle (its folder), and kernel (the name of
        this one). at_start: names made by the session's own code. hidden_lines: lines typed hidden,
        which are not saved; may grow."""
        self.namespace = namespace
        self.settings = settings
        self.kernel: str = settings["kernel"]
        self.at_start = at_start
        self.hidden_lines = hidden_lines
        self._index: dict[str, Any] = {"files": [], "missing": []}

    def index(self) -> dict[str, Any]:
        """Return the saved files with their variables, and what is not saved. Raises `FolderError`
        and `OSError`."""
        with (
            contextlib.suppress(FileNotFoundError),
            contextlib.closing(self.open_folder()) as folder,
        ):
            self._index = folder.index() or self._index
        files = [
            {"name": file["name"], "size": file["size"], "variables": list_variables(file)}
            for file in self._index["files"]
        ]
        missing = [{"variable": row, "reason": row["reason"]} for row in self._index["missing"]]
        return {"files": files, "missing": missing}

    def start_writing(self, request: dict[str, Any]) -> Checkpoint:
        """Fork the process that saves; `finish` waits for it. Raises `OSError`."""
        writer = Writer(self, request)

        def write_with_low_priority(question: Any) -> dict[str, Any]:
            os.nice(_NICE)
            return writer.write()

        return fork(write_with_low_priority)

    def make_rescue(self, read_request: Callable[[], dict[str, Any]]) -> Rescue:
        """Return what a checkpoint does if the kernel dies.

        Args:
            read_request: Returns the request that the host would send now.
        """

        def lock_folder() -> None:
            # The cell runs without a rescue if the disk is full or cannot lock.
            with (
                contextlib.suppress(OSError, FolderError),
                contextlib.closing(self.open_folder(create=True)) as folder,
            ):
                folder.lock_for_checkpoint(self.kernel)

        def save() -> None:
            signal.alarm(int(RESCUE_TIMEOUT_S + RESCUE_GRACE_S))
            Writer(self, read_request(), is_rescue=True).write()

        return Rescue(lock_folder, save)

    def take_over(self, *, wait: bool) -> None:
        """Make this kernel the only one that saves in the folder, if the folder exists.

        Args:
            wait: Whether to wait for what the last kernel had when it died.

        Raises:
            OSError, FolderError: The folder cannot be used.
        """
        with (
            contextlib.suppress(FileNotFoundError),
            contextlib.closing(self.open_folder()) as folder,
        ):
            if wait:
                folder.wait_for_checkpoints(RESCUE_TIMEOUT_S + RESCUE_GRACE_S)
            folder.set_owner(self.kernel)

    def loading(self, name: str) -> VariableLoader:
        file = next(file for file in self._index["files"] if file["name"] == name)
        return VariableLoader(self, file)

    def open_folder(self, *, create: bool = False, waits_for_disk: bool = True) -> SaveFolder:
        key = bytes.fromhex(self.settings["key"])
        folder = self.settings["folder"]
        return SaveFolder(folder, key, create=create, waits_for_disk=waits_for_disk)


def finish(writer: Checkpoint) -> dict[str, Any]:
    """Return a writer's result, or a sentence as its ``error``."""
    try:
        reply: dict[str, Any] = writer.ask(None, WRITE_TIMEOUT_S)
        return reply
    except CheckpointError:
        return {"error": "the process that writes them was killed"}
    finally:
        writer.end()
        writer.wait()


class Writer:
    """Saves variables in a forked process."""

    def __init__(self, keeper: Keeper, request: dict[str, Any], *, is_rescue: bool = False) -> None:
        """request: `carried` (files of earlier kernels to keep) and `lost` (names that only earlier
        kernels had). is_rescue: whether the next kernel waits for this."""
        self._is_rescue = is_rescue
        self._keeper = keeper
        self._namespace = keeper.namespace
        self._request = request
        megabytes: int = keeper.settings["megabytes"]
        self._most = megabytes * 2**20
        self._limit = f"more than the {megabytes:,} MB of keep_namespace_mb"
        self._hidden = HiddenTexts(keeper.hidden_lines)
        self._pulse = ProgressCounter()
        self._cloudpickle: Any = None
        self._folder: SaveFolder
        self._earlier_files: dict[str, dict[str, Any]] = {}

    def write(self) -> dict[str, Any]:
        """Save, and return size, counts and what is not saved, or an error."""
        try:
            # A rescue does not bring back the folder of a session that is being deleted, and does
            # not wait for the disk, because the next kernel waits.
            options = {"create": not self._is_rescue, "waits_for_disk": not self._is_rescue}
            with contextlib.closing(self._keeper.open_folder(**options)) as self._folder:
                return self._write()
        except OSError as error:
            return {"error": error.strerror or str(error)}
        except FolderError as error:
            return {"error": str(error)}

    def _write(self) -> dict[str, object]:
        previous_index: dict[str, Any] = {"files": [], "missing": []}
        with contextlib.suppress(FolderError):  # of another version, which is now replaced
            previous_index = self._folder.index() or previous_index
        self._earlier_files = {file["digest"]: file for file in previous_index["files"]}
        carried = [
            unloaded_part
            for file in previous_index["files"]
            if file["name"] in self._request["carried"]
            if (unloaded_part := self._unloaded_part(file))["groups"]
        ]
        keeper = self._keeper
        self._cloudpickle = load_cloudpickle(keeper.settings["cloudpickle"], keeper.kernel)
        variables: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for name, value in self._namespace.items():
            if type(name) is str and name not in HIDDEN_NAMES:
                if is_hidden(name, value):
                    missing[name] = "its name looks like a secret's"
                else:
                    variables[name] = value
        saved = self._save_groups(variables, missing, sum(file["size"] for file in carried))
        files = [reply["file"] for _, reply, _ in saved if "file" in reply]
        small = [(reply, data) for _, reply, data in saved if "file" not in reply]
        if small:
            groups = [reply["group"] for reply, _ in small]
            data = [data for _, data in small]
            size = sum(reply["size"] for reply, _ in small)
            files.insert(0, self._write_file(groups, data, size))
        rows = [self._row(name, reason=reason) for name, reason in missing.items()]
        lost = set(self._request["lost"]).difference(self._namespace)
        index: dict[str, Any] = {
            "written": time.time(),
            "files": [*files, *carried],
            "missing": [*rows, *(row for row in previous_index["missing"] if row["name"] in lost)],
        }
        if not self._folder.is_owner(keeper.kernel):
            raise FolderError("another kernel saves there now")
        self._folder.write_index(index)
        self._folder.remove_all_but({file["name"] for file in index["files"]})
        return {
            "size": sum(file["size"] for file in index["files"]),
            "names": sum(len(group.names) for group, _, _ in saved),
            "missing": len(missing),
        }

    def _save_groups(
        self, variables: dict[str, Any], missing: dict[str, str], size: int
    ) -> list[tuple[Group, dict[str, Any], bytes]]:
        """missing: gets reasons. size: bytes saved already."""
        groups = group_variables(variables, self._namespace)
        done: list[tuple[Group, dict[str, Any], bytes]] = []
        timeout_s = RESCUE_TIMEOUT_S if self._is_rescue else _TOGETHER
        results = run_in_fork(groups, self._write_group, _EACH, timeout_s, self._pulse.count)
        for group, result in zip(groups, results):
            if isinstance(result, str):
                if len(result) <= MAX_REASON_CHARS:
                    reason = result
                else:
                    reason = f"{result[:MAX_REASON_CHARS]}…"
                missing.update(dict.fromkeys(group.names, reason))
                continue
            head, _, data = result.partition(b"\n")
            reply = json.loads(head)
            if "problem" in reply:  # a problem of the disk, not of the variables
                raise OSError(reply["problem"], os.strerror(reply["problem"]))
            done.append((group, reply, data))
            size += reply["size"]
            while size > self._most:
                largest = max(done, key=lambda sorted_group: int(sorted_group[1]["size"]))
                done.remove(largest)
                size -= largest[1]["size"]
                megabytes = f"{largest[1]['size'] / 2**20:,.0f} MB"
                reason = f"{megabytes}, which together with the others is {self._limit}"
                missing.update(dict.fromkeys(largest[0].names, reason))
        return done

    def _unloaded_part(self, file: dict[str, Any]) -> dict[str, Any]:
        groups = [
            group
            for group in file["groups"]
            if any(row["name"] not in self._namespace for row in group["rows"])
        ]
        return {**file, "groups": groups}

    def _row(self, name: str, **fields: str) -> dict[str, Any]:
        row = {**describe_variable(name, self._namespace[name]), **fields}
        return self._hidden.redact_row(row)

    def _write_group(self, group: Group) -> bytes:
        """Return a line of JSON, followed by the bytes of a small group. Raises what an object
        raises."""
        if group.size > self._most:
            raise UnpicklableError(self._limit)
        variables = {name: self._namespace[name] for name in group.names}
        try:
            result = pickle_variables(
                variables, self._namespace, self._cloudpickle, self._most, self._pulse
            )
        except TooLargeError:
            raise UnpicklableError(self._limit) from None
        if self._hidden.found_in(result.stream, result.blocks, self._pulse):
            raise UnpicklableError(HIDDEN_REASON)
        parts: list[Any] = [result.stream, *result.blocks]
        size = sum(memoryview(part).nbytes for part in parts)
        reply: dict[str, Any] = {
            "rows": [self._row(name) for name in group.names],
            "stream": len(result.stream),
            "check": compute_digest([result.stream]),
            "blocks": [block.nbytes for block in result.blocks],
        }
        if size <= SMALL_GROUP_BYTES:
            return json.dumps({"group": reply, "size": size}).encode() + b"\n" + b"".join(parts)
        try:
            written = {"file": self._write_file([reply], parts, size), "size": size}
        except OSError as error:
            written = {"problem": error.errno}
        return json.dumps(written).encode() + b"\n"

    def _write_file(
        self, groups: list[dict[str, Any]], parts: list[Any], size: int
    ) -> dict[str, Any]:
        """Raises `OSError`."""
        digest = compute_digest(self._pulse.track(parts))
        start = 0
        for group in groups:
            group["start"] = start
            start += group["stream"] + sum(group["blocks"])
        if digest in self._earlier_files:
            name = self._earlier_files[digest]["name"]
        else:
            name = f"{digest}.variables"
            self._folder.write(name, self._pulse.track(parts))
        about = {"name": name, "digest": digest, "size": size}
        return {**about, "python": python_version(), "groups": groups}
