"""Saves the kernel's namespace, and restores what was saved."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any, Callable

from ..undo.checkpoint_process import Checkpoint, CheckpointError, fork
from ..undo.checkpoint_server import Rescue
from .folder import FolderError, SaveFolder
from .loader import VariableLoader, list_variables
from .writer import RESCUE_TIMEOUT_S, Writer

WRITE_TIMEOUT_S = 900.0
"""For writing all variables."""
RESCUE_GRACE_S = 15.0
"""Seconds for writing the index after what a kernel had when it died."""
_NICE = 10
"""The priority of the process that saves."""


class Keeper:
    """Saves one namespace. Used on the thread that runs the cells, except for `index`."""

    def __init__(
        self,
        namespace: dict[str, Any],
        settings: dict[str, Any],
        at_start: dict[str, Any],
        hidden_lines: list[str],
    ) -> None:
        """Begin with nothing saved.

        Args:
            namespace: The user's namespace.
            settings: folder, key (hex), megabytes, cloudpickle (its folder), and kernel (the name of
                this one).
            at_start: Names made by the session's own code.
            hidden_lines: Lines typed hidden, which are not saved; may grow.
        """
        self.namespace = namespace
        self.settings = settings
        self.kernel: str = settings["kernel"]
        self.at_start = at_start
        self.hidden_lines = hidden_lines
        self._index: dict[str, Any] = {"files": [], "missing": []}

    def index(self) -> dict[str, Any]:
        """Return the saved files with their variables, and what is not saved.

        Raises `FolderError` and `OSError`.
        """
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
        writer = self._make_writer(request)

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
            self._make_writer(read_request(), is_rescue=True).write()

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

    def _make_writer(self, request: dict[str, Any], *, is_rescue: bool = False) -> Writer:
        return Writer(
            self.namespace,
            self.settings,
            self.hidden_lines,
            self.open_folder,
            request,
            is_rescue=is_rescue,
        )

    def loading(self, name: str) -> VariableLoader:
        """Return what restores a file that `index` has returned."""
        file = next(file for file in self._index["files"] if file["name"] == name)
        cloudpickle = self.settings["cloudpickle"]
        return VariableLoader(file, self.namespace, self.at_start, self.open_folder, cloudpickle)

    def open_folder(self, *, create: bool = False, waits_for_disk: bool = True) -> SaveFolder:
        """Open the folder of the session. Raises `OSError` and `FolderError`."""
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
