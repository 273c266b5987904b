"""The kernel's side of keeping its namespace: starts the writer, and loads what was kept."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from ..undo.checkpoint import Checkpoint, CheckpointError, fork
from .folder import FolderError, KeptFolder
from .loading import Loading, rows_of
from .writing import Writer

WRITING = 900.0
"""Seconds after which a writer is ended."""


class Keeper:
    """Keeps one namespace. Used on the thread that runs the cells, but for `index`."""

    def __init__(
        self,
        namespace: dict[str, Any],
        settings: dict[str, Any],
        at_start: dict[str, Any],
        hidden_lines: list[str],
    ) -> None:
        """settings: folder, key (hex), megabytes, and cloudpickle (its folder). at_start: what the
        session's own code has made. hidden_lines: what was typed hidden, which is not saved; it may
        grow."""
        self._namespace = namespace
        self._settings = settings
        self._kernel = os.urandom(8).hex()
        self._at_start = at_start
        """Names made at the start; saved variables of the same names are newer."""
        self._hidden_lines = hidden_lines
        self._index: dict[str, Any] = {"files": [], "missing": []}

    def index(self) -> dict[str, Any]:
        """Read what is kept: the files with their variables, and what is not kept. Raises
        `FolderError`, `OSError`."""
        with contextlib.suppress(FileNotFoundError), contextlib.closing(self._open()) as folder:
            self._index = folder.index() or self._index
        files = [
            {"name": file["name"], "size": file["size"], "variables": rows_of(file)}
            for file in self._index["files"]
        ]
        return {
            "files": files,
            "missing": [
                {"variable": row, "reason": row["reason"]} for row in self._index["missing"]
            ],
        }

    def start_writing(self, request: dict[str, Any]) -> Checkpoint:
        """Fork the process that writes; `finish` waits for it. request: carried and lost, see
        `Writer`. Raises `OSError`."""
        writer = Writer(
            self._namespace,
            self._kernel,
            {**self._settings, **request, "hidden": self._hidden_lines},
        )
        return fork(lambda question: _write(writer))

    def loading(self, name: str) -> Loading:
        """Function that loads a file of the index."""
        file = next(file for file in self._index["files"] if file["name"] == name)
        return Loading(
            self._open, file, self._settings["cloudpickle"], self._namespace, self._at_start
        )

    def _open(self) -> KeptFolder:
        return KeptFolder(self._settings["folder"], bytes.fromhex(self._settings["key"]))


def finish(writer: Checkpoint) -> dict[str, Any]:
    """Wait for what a writer tells: see `Writer.write`, or a sentence as its ``error``."""
    try:
        told: dict[str, Any] = writer.ask(None, WRITING)
        return told
    except CheckpointError:
        return {"error": "the process that writes them was killed"}
    finally:
        writer.end()
        writer.wait()


def _write(writer: Writer) -> dict[str, Any]:
    try:
        return writer.write()
    except OSError as error:
        return {"error": error.strerror or str(error)}
    except FolderError as error:
        return {"error": str(error)}
