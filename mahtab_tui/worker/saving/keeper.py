"""The kernel's side of saving its namespace, and restoring what was saved."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Callable

from ..control import python_version
from ..objects import MISSING
from ..tracebacks import describe_safely
from ..undo.checkpoint import Checkpoint, CheckpointError, PythonVersionError, fork
from .folder import MAX_REASON, FolderError, SaveFolder, compute_digest, split_pieces
from .pickling import load_cloudpickle, unpickle_variables
from .writer import Writer


class VariableLoader:
    """Restores a file of the index into the namespace, without overwriting anything that a cell has
    made."""

    def __init__(
        self,
        open_folder: Callable[[], SaveFolder],
        file: dict[str, Any],
        cloudpickle: str,
        namespace: dict[str, Any],
        at_start: dict[str, Any],
    ) -> None:
        """cloudpickle: the package's folder. at_start: see `Keeper`."""
        self._open_folder = open_folder
        self._file = file
        self._cloudpickle = cloudpickle
        self._namespace = namespace
        self._at_start = at_start
        self._left = dict.fromkeys(row["name"] for row in list_variables(file))
        self._missing: dict[str, str] = {}
        self._reason = "reading it was stopped"

    def run(self) -> None:
        """Restore the file. Raises `KeyboardInterrupt`."""
        try:
            with contextlib.closing(self._open_folder()) as folder:
                load_cloudpickle(self._cloudpickle)
                with folder.open(self._file["name"]) as opened:
                    for group in self._file["groups"]:
                        self._load(opened, group)
        except OSError as error:
            self._reason = f"its file cannot be read ({error.strerror})"
        except FolderError as error:
            self._reason = str(error)

    def missing(self) -> dict[str, str]:
        """The names that were not restored, and why."""
        return {**dict.fromkeys(self._left, self._reason), **self._missing}

    def _load(self, opened: Any, group: dict[str, Any]) -> None:
        """Restore a group. Its variables are bound immediately, because others may need them."""
        try:
            variables = _load_group(opened, group, self._namespace)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # recreating the user's objects may raise anything
            self._missing.update(
                {
                    row["name"]: _failure_reason(error, self._file["python"], group["packages"])
                    for row in group["rows"]
                }
            )
            return
        for name, value in variables.items():
            now = self._namespace.get(name, MISSING)
            if now is MISSING or now is self._at_start.get(name, MISSING):
                self._namespace[name] = value
            else:
                self._missing[name] = "a cell has made a new one since"
            self._left.pop(name, None)


def list_variables(file: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for group in file["groups"] for row in group["rows"]]


def _load_group(opened: Any, group: dict[str, Any], namespace: dict[str, Any]) -> dict[str, Any]:
    sizes: list[int] = group["blocks"]
    starts = [
        group["start"] + group["stream"] + sum(sizes[:number]) for number in range(len(sizes))
    ]
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


def _failure_reason(error: BaseException, python: str, packages: dict[str, str]) -> str:
    if isinstance(error, FolderError):
        return str(error)
    if isinstance(error, PythonVersionError):
        return f"it contains code of Python {python}, and this is {python_version()}"
    if isinstance(error, ModuleNotFoundError) and type(error.name) is str:
        package = error.name.partition(".")[0]
        return f"its package {package} is missing"
    reason = describe_safely(error).text.strip().splitlines()[-1][:MAX_REASON]
    changed = [
        f"{package} was {version}, and is {now}"
        for package, version in packages.items()
        if (now := _version_of(package)) and now != version
    ]
    if python.split(".")[:2] != python_version().split(".")[:2]:
        changed.append(f"Python was {python}, and is {python_version()}")
    return f"it cannot be read ({reason})" + (f"; {'; '.join(changed)}" if changed else "")


def _version_of(package: str) -> str:
    version = getattr(sys.modules.get(package), "__version__", "")
    return version if type(version) is str else ""


WRITE_TIMEOUT = 900.0


class Keeper:
    """Saves one namespace. Used on the thread that runs the cells, except for `index`."""

    def __init__(
        self,
        namespace: dict[str, Any],
        settings: dict[str, Any],
        at_start: dict[str, Any],
        hidden_lines: list[str],
    ) -> None:
        """settings: folder, key (hex), megabytes, and cloudpickle (its folder). at_start: names
        made by the session's own code. hidden_lines: lines typed hidden, which are not saved; may
        grow."""
        self._namespace = namespace
        self._settings = settings
        self._kernel = os.urandom(8).hex()
        self._at_start = at_start
        """Names made at the start; saved variables with the same names are newer."""
        self._hidden_lines = hidden_lines
        self._index: dict[str, Any] = {"files": [], "missing": []}

    def index(self) -> dict[str, Any]:
        """Return what is saved: the files with their variables, and what is not saved. Raises
        `FolderError` and `OSError`."""
        with contextlib.suppress(FileNotFoundError), contextlib.closing(self._open()) as folder:
            self._index = folder.index() or self._index
        files = [
            {"name": file["name"], "size": file["size"], "variables": list_variables(file)}
            for file in self._index["files"]
        ]
        return {
            "files": files,
            "missing": [
                {"variable": row, "reason": row["reason"]} for row in self._index["missing"]
            ],
        }

    def start_writing(self, request: dict[str, Any]) -> Checkpoint:
        """Fork the process that saves; `finish` waits for it. request: carried and lost, see
        `Writer`. Raises `OSError`."""
        writer = Writer(
            self._namespace,
            self._kernel,
            {**self._settings, **request, "hidden": self._hidden_lines},
        )
        return fork(lambda question: _write(writer))

    def loading(self, name: str) -> VariableLoader:
        """Return a loader for a file of the index."""
        file = next(file for file in self._index["files"] if file["name"] == name)
        return VariableLoader(
            self._open, file, self._settings["cloudpickle"], self._namespace, self._at_start
        )

    def _open(self) -> SaveFolder:
        return SaveFolder(self._settings["folder"], bytes.fromhex(self._settings["key"]))


def finish(writer: Checkpoint) -> dict[str, Any]:
    """Wait for a writer's result: see `Writer.write`; otherwise a sentence as its ``error``."""
    try:
        reply: dict[str, Any] = writer.ask(None, WRITE_TIMEOUT)
        return reply
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
