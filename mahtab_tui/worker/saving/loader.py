"""Restores variables that were saved."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, BinaryIO, Callable

from ..cells.tracebacks import describe_safely
from ..link.process_facts import python_version
from ..undo.reduction import PythonVersionError
from ..values.objects import MISSING
from .cloudpickle_copy import load_cloudpickle
from .data_pieces import compute_digest, split_pieces
from .folder import MAX_REASON_CHARS, FolderError, SaveFolder
from .pickling import unpickle_variables


class VariableLoader:
    """Restores a file of the index, without overwriting anything that a cell has made."""

    def __init__(
        self,
        file: dict[str, Any],
        namespace: dict[str, object],
        names_at_start: dict[str, object],
        open_folder: Callable[[], SaveFolder],
        cloudpickle: str,
    ) -> None:
        """Prepare to restore.

        Args:
            file: The file's entry in the index.
            namespace: Gets the variables.
            names_at_start: What the session's own code had made, which may be replaced.
            open_folder: Opens the folder of the file.
            cloudpickle: The folder of cloudpickle.
        """
        self._file = file
        self._namespace = namespace
        self._names_at_start = names_at_start
        self._open_folder = open_folder
        self._cloudpickle = cloudpickle
        self._unread_names = dict.fromkeys(row["name"] for row in list_variables(file))
        self._unread_reason = "reading it was stopped"
        """Why these names are not restored."""
        self._reasons: dict[str, str] = {}
        """Why others are not restored, by name."""

    def run(self) -> None:
        """Restore the variables. May be interrupted by `KeyboardInterrupt`."""
        try:
            with contextlib.closing(self._open_folder()) as folder:
                load_cloudpickle(self._cloudpickle)
                with folder.open(self._file["name"]) as data_file:
                    for group in self._file["groups"]:
                        self._load_group(data_file, group)
        except OSError as error:
            self._unread_reason = f"its file cannot be read ({error.strerror})"
        except FolderError as error:
            self._unread_reason = str(error)

    def missing(self) -> dict[str, str]:
        """Return the variables that are not restored, each with the reason as a clause."""
        return {**dict.fromkeys(self._unread_names, self._unread_reason), **self._reasons}

    def _load_group(self, data_file: BinaryIO, group: dict[str, Any]) -> None:
        """Restore a group. Its variables are bound immediately, because others may need them."""
        try:
            variables = _read_group(data_file, group, self._namespace)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # recreating the user's objects may raise anything
            reason = _failure_reason(error, self._file["python"])
            self._reasons.update({row["name"]: reason for row in group["rows"]})
            return

        for name, value in variables.items():
            if self._is_free(name):
                self._namespace[name] = value
            else:
                self._reasons[name] = "a cell has made a new one since"
            self._unread_names.pop(name, None)

    def _is_free(self, name: str) -> bool:
        """Return whether no cell has bound a name."""
        current_value = self._namespace.get(name, MISSING)
        if current_value is MISSING:
            return True
        return current_value is self._names_at_start.get(name, MISSING)


def list_variables(file: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the descriptions of the variables in a file of the index."""
    return [row for group in file["groups"] for row in group["rows"]]


def _read_group(
    data_file: BinaryIO, group: dict[str, Any], namespace: dict[str, object]
) -> dict[str, object]:
    """Return the variables of a group.

    Raises `FolderError` for a damaged file, and may raise anything else.
    """
    stream = bytearray(group["stream"])
    _read(data_file, group["start"], memoryview(stream))
    if compute_digest([stream]) != group["check"]:
        raise FolderError("its file is damaged: it is not what was written")

    # The blocks follow the stream.
    block_sizes: list[int] = group["blocks"]
    block_starts = list(itertools.accumulate(block_sizes, initial=group["start"] + group["stream"]))

    def fill(number: int, memory: memoryview) -> None:
        _read(data_file, block_starts[number], memory)

    return unpickle_variables(stream, block_sizes, fill, namespace)


def _read(data_file: Any, start: int, memory: memoryview) -> None:
    """Fill memory with what a file has from an offset on. Raises `FolderError` if it ends too early."""
    data_file.seek(start)
    for piece in split_pieces(memory):
        unread = piece
        while unread:
            read_bytes = data_file.readinto(unread)
            if not read_bytes:
                raise FolderError("its file is damaged: it ends too early")
            unread = unread[read_bytes:]


def _failure_reason(error: BaseException, python: str) -> str:
    """Return why variables cannot be restored, as a clause.

    Args:
        error: What was raised when they were read.
        python: The version of Python that wrote them.
    """
    if isinstance(error, FolderError):
        return str(error)
    if isinstance(error, PythonVersionError):
        return f"it contains code of Python {python}, and this is {python_version()}"
    if isinstance(error, ModuleNotFoundError) and type(error.name) is str:
        package = error.name.partition(".")[0]
        return f"its package {package} is missing"
    reason = describe_safely(error).text.strip().splitlines()[-1][:MAX_REASON_CHARS]
    return f"it cannot be read ({reason}); it was written by Python {python}"
