"""The kernel's side of keeping its namespace: starts the writer, and loads what was kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..statics import MISSING
from ..undo.checkpoint import Checkpoint, CheckpointError, fork
from .folder import FolderError, KeptFolder
from .loading import load
from .writing import Writer

WRITING = 900.0
"""Seconds after which a writer is ended."""


class Keeper:
    """Keeps one namespace. Used on the thread that runs the cells, but for `index`."""

    def __init__(self, namespace: dict[str, Any], settings: dict[str, Any]) -> None:
        """settings: folder, key (hex), megabytes, and cloudpickle (its folder)."""
        self._namespace = namespace
        self._settings = settings
        self._kernel = os.urandom(8).hex()
        self._at_start = dict(namespace)
        """What the session's own code has made: what was kept is newer."""
        self._index: dict[str, Any] = {"files": [], "missing": []}

    def index(self) -> dict[str, Any]:
        """Read what is kept: the files with their variables, and what is not kept. Raises `FolderError`, `OSError`."""
        try:
            folder = self._open()
        except FileNotFoundError:
            return self._told()
        try:
            self._index = folder.index() or self._index
        finally:
            folder.close()
        return self._told()

    def _told(self) -> dict[str, Any]:
        files = [{"name": file["name"], "size": file["size"], "variables": _rows(file)} for file in self._index["files"]]
        return {"files": files, "missing": [{"variable": row, "reason": row["reason"]} for row in self._index["missing"]]}

    def start_writing(self, carried: Iterable[str]) -> Checkpoint:
        """Fork the process that writes; `finish` waits for it. carried: files that stay, though nothing of them is in the namespace. Raises `OSError`."""
        writer = Writer(self._namespace, self._kernel, {**self._settings, "carried": list(carried)})
        return fork(lambda question: _written(writer))

    def load(self, name: str) -> dict[str, str]:
        """Read a file of the index into the namespace, but over nothing that a cell has made; returns the names that are not back, with reasons."""
        file = next(file for file in self._index["files"] if file["name"] == name)
        left = dict.fromkeys(row["name"] for row in _rows(file))
        missing: dict[str, str] = {}

        def bind(variables: dict[str, Any]) -> None:
            for each, value in variables.items():
                now = self._namespace.get(each, MISSING)
                if now is MISSING or now is self._at_start.get(each, MISSING):
                    self._namespace[each] = value
                else:
                    missing[each] = "a cell has made another one meanwhile"
                left.pop(each, None)

        try:
            folder = self._open()
            try:
                load(folder, file, self._namespace, bind, missing, self._settings["cloudpickle"])
            finally:
                folder.close()
        except KeyboardInterrupt:
            return {**dict.fromkeys(left, "reading it was stopped"), **missing}
        except OSError as error:
            return {**dict.fromkeys(left, f"its file cannot be read ({error.strerror})"), **missing}
        except FolderError as error:
            return {**dict.fromkeys(left, str(error)), **missing}
        return missing

    def _open(self) -> KeptFolder:
        return KeptFolder(self._settings["folder"], bytes.fromhex(self._settings["key"]))


def _rows(file: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for group in file["groups"] for row in group["rows"]]


def finish(writer: Checkpoint) -> dict[str, Any]:
    """Wait for what a writer tells: see `Writer.write`, or a sentence as its ``error``."""
    try:
        told: dict[str, Any] = writer.ask(None, WRITING)
        return told
    except CheckpointError:
        return {"error": "the process that writes them was ended"}
    finally:
        writer.end()
        writer.wait()


def _written(writer: Writer) -> dict[str, Any]:
    try:
        return writer.write()
    except OSError as error:
        return {"error": error.strerror or str(error)}
    except FolderError as error:
        return {"error": str(error)}
