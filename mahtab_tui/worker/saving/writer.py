"""Saves the namespace in a forked low-priority process."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any

from ..control import python_version
from ..undo.checkpoint import UnpicklableError, run_in_fork
from ..variables import HIDDEN, describe_variable, is_hidden
from .folder import MAX_REASON, FolderError, ProgressCounter, SaveFolder, compute_digest
from .pickling import (
    HIDDEN_REASON,
    Group,
    HiddenTexts,
    TooLargeError,
    group_variables,
    load_cloudpickle,
    pickle_variables,
)

SMALL_GROUP = 16_384
"""Maximum bytes of groups that are saved in one file, together with others."""
_EACH, _TOGETHER = 5.0, 600.0
"""Seconds for one group without progress, and seconds for all groups."""
_NICE = 10


class Writer:
    """Saves the variables that have changed since the last index."""

    def __init__(self, namespace: dict[str, Any], kernel: str, request: dict[str, Any]) -> None:
        """kernel: identifies this kernel. request: `folder`, `key` (hex), `megabytes` and
        `cloudpickle` (its folder); `carried` (files of earlier kernels to keep), `lost` (names that
        earlier kernels had and this one never had) and `hidden` (lines typed hidden)."""
        self._namespace = namespace
        self._kernel = kernel
        self._folder = request["folder"]
        self._key = bytes.fromhex(request["key"])
        self._most: int = request["megabytes"] * 2**20
        self._cloudpickle_folder: str = request["cloudpickle"]
        self._carried = frozenset(request["carried"])
        self._lost = frozenset(request["lost"])
        self._hidden = HiddenTexts(request["hidden"])

    def write(self) -> dict[str, Any]:
        """Save, and report the bytes in total, the number of variables, and those not saved. Raises
        `OSError` and `FolderError`."""
        os.nice(_NICE)
        with contextlib.closing(SaveFolder(self._folder, self._key, create=True)) as folder:
            return self._write(folder)

    def _write(self, folder: SaveFolder) -> dict[str, Any]:
        index_before: dict[str, Any] = {"files": [], "missing": []}
        with contextlib.suppress(FolderError):  # of another version, which is now replaced
            index_before = folder.index() or index_before
        before = index_before["files"]
        carried = [
            left
            for file in before
            if file["name"] in self._carried
            if (left := self._unloaded_part(file))["groups"]
        ]
        attempt = _GroupWriter(
            folder,
            self._namespace,
            load_cloudpickle(self._cloudpickle_folder, self._kernel),
            before,
            self._most,
            self._hidden,
        )
        variables, missing = self._variables()
        groups = group_variables(variables, self._namespace)
        room = self._most - sum(file["size"] for file in carried)
        done: list[tuple[Group, dict[str, Any], bytes]] = []
        results = run_in_fork(groups, attempt.write, _EACH, _TOGETHER, attempt.pulse.count)
        for group, result in zip(groups, results):
            if isinstance(result, str):
                missing.update(
                    dict.fromkeys(
                        group.names,
                        result if len(result) <= MAX_REASON else f"{result[:MAX_REASON]}…",
                    )
                )
                continue
            head, _, data = result.partition(b"\n")
            reply = json.loads(head)
            if "problem" in reply:  # a problem of the disk, not of the variables
                raise OSError(reply["problem"], os.strerror(reply["problem"]))
            done.append((group, reply, data))
            room -= reply["size"]
            while room < 0:
                largest = max(done, key=lambda each: int(each[1]["size"]))
                done.remove(largest)
                room += largest[1]["size"]
                missing.update(
                    dict.fromkeys(largest[0].names, _too_large(largest[1]["size"], self._most))
                )
        files = [reply["file"] for _, reply, _ in done if "file" in reply]
        small = [(reply, data) for _, reply, data in done if "file" not in reply]
        if small:
            size = sum(reply["size"] for reply, _ in small)
            files.insert(
                0,
                attempt.write_file(
                    [reply["group"] for reply, _ in small], [data for _, data in small], size
                ),
            )
        index: dict[str, Any] = {
            "written": time.time(),
            "files": [*files, *carried],
            "missing": [
                *(
                    {
                        **self._hidden.redact_row(describe_variable(name, self._namespace[name])),
                        "reason": reason,
                    }
                    for name, reason in missing.items()
                ),
                *(
                    row
                    for row in index_before["missing"]
                    if row["name"] in self._lost and row["name"] not in self._namespace
                ),
            ],
        }
        folder.write_index(index)
        folder.remove_all_but({file["name"] for file in index["files"]})
        return {
            "size": sum(file["size"] for file in index["files"]),
            "names": sum(len(group.names) for group, _, _ in done),
            "missing": len(missing),
        }

    def _unloaded_part(self, file: dict[str, Any]) -> dict[str, Any]:
        """Return a file with those of its groups that are not in the namespace."""
        return {
            **file,
            "groups": [
                group
                for group in file["groups"]
                if any(row["name"] not in self._namespace for row in group["rows"])
            ],
        }

    def _variables(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the variables to save, and names that are not saved, with reasons."""
        variables: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for name, value in self._namespace.items():
            if type(name) is not str or name in HIDDEN:
                continue
            if is_hidden(name, value):
                missing[name] = "its name looks like a secret's"
            else:
                variables[name] = value
        return variables, missing


def _too_large(size: int, most: int) -> str:
    size_text, limit = f"{size / 2**20:,.0f} MB", f"{most // 2**20:,} MB of keep_namespace_mb"
    return (
        f"{size_text} > {limit}"
        if size > most
        else f"{size_text}, which together with the others is more than the {limit}"
    )


class _GroupWriter:
    """Saves one group after the other, in a process that is replaced if a variable hangs or kills
    it."""

    def __init__(
        self,
        folder: SaveFolder,
        namespace: dict[str, Any],
        cloudpickle: Any,
        before: list[dict[str, Any]],
        most: int,
        hidden: HiddenTexts,
    ) -> None:
        self._folder = folder
        self._namespace = namespace
        self._cloudpickle = cloudpickle
        self._earlier_files = {file["digest"]: file for file in before}
        self._most = most
        self._hidden = hidden
        self.pulse = ProgressCounter()

    def write(self, group: Group) -> bytes:
        """Save a group into a file unless it exists; returns a line of JSON, followed by the bytes
        of a small group. Raises anything that an object raises."""
        if group.size > self._most:
            raise UnpicklableError(_too_large(group.size, self._most))
        try:
            result = pickle_variables(
                {name: self._namespace[name] for name in group.names},
                self._namespace,
                self._cloudpickle,
                self._most,
                self.pulse,
            )
        except TooLargeError:
            raise UnpicklableError(
                f"more than the {self._most // 2**20:,} MB of keep_namespace_mb"
            ) from None
        if self._hidden.found_in(result.stream, result.blocks, self.pulse):
            raise UnpicklableError(HIDDEN_REASON)
        parts: list[Any] = [result.stream, *result.blocks]
        size = sum(memoryview(part).nbytes for part in parts)
        reply = {
            "rows": [
                self._hidden.redact_row(describe_variable(name, self._namespace[name]))
                for name in group.names
            ],
            "stream": len(result.stream),
            "check": compute_digest([result.stream]),
            "blocks": [block.nbytes for block in result.blocks],
            "packages": result.packages,
        }
        if size <= SMALL_GROUP:
            return json.dumps({"group": reply, "size": size}).encode() + b"\n" + b"".join(parts)
        try:
            return (
                json.dumps({"file": self.write_file([reply], parts, size), "size": size}).encode()
                + b"\n"
            )
        except OSError as error:
            return json.dumps({"problem": error.errno}).encode() + b"\n"

    def write_file(
        self, groups: list[dict[str, Any]], parts: list[Any], size: int
    ) -> dict[str, Any]:
        """Save groups into one file. Raises `OSError`."""
        digest = compute_digest(self.pulse.track(parts))
        start = 0
        for group in groups:
            group["start"] = start
            start += group["stream"] + sum(group["blocks"])
        if digest in self._earlier_files:
            name = self._earlier_files[digest]["name"]
        else:
            name = f"{digest}.variables"
            self._folder.write(name, self.pulse.track(parts))
        return {
            "name": name,
            "digest": digest,
            "size": size,
            "python": python_version(),
            "groups": groups,
        }
