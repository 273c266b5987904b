"""Reading variables that were kept, one file after the other."""

from __future__ import annotations

import sys
from typing import Any, Callable

from ..control import python_version
from ..tracebacks import describe_safely
from ..undo.reducing import PythonVersionError
from .folder import LONGEST, FolderError, KeptFolder, digest_of, pieces
from .pickling import load_cloudpickle, unpickled

Bind = Callable[[dict[str, Any]], None]


def load(folder: KeptFolder, file: dict[str, Any], namespace: dict[str, Any], bind: Bind, missing: dict[str, str], cloudpickle: str) -> None:
    """Read a file of the index. bind: takes the variables of a group as soon as it is read, since others may need them. missing: gets the names that
    cannot be read, and why. cloudpickle: the package's folder. Raises `KeyboardInterrupt`, `OSError`, `FolderError`."""
    load_cloudpickle(cloudpickle)
    with folder.open(file["name"]) as opened:
        for group in file["groups"]:
            try:
                variables = _load_group(opened, group, namespace)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # objects of the user's are made again
                missing.update({row["name"]: _why(error, file["python"], group["packages"]) for row in group["rows"]})
            else:
                bind(variables)


def _load_group(opened: Any, group: dict[str, Any], namespace: dict[str, Any]) -> dict[str, Any]:
    sizes: list[int] = group["blocks"]
    starts = [group["start"] + group["stream"] + sum(sizes[:number]) for number in range(len(sizes))]
    stream = bytearray(group["stream"])
    _read(opened, group["start"], memoryview(stream))
    if digest_of([stream]) != group["check"]:
        raise FolderError("its file is damaged: it is not what was written")
    return unpickled(stream, sizes, lambda number, memory: _read(opened, starts[number], memory), namespace)


def _read(opened: Any, start: int, memory: memoryview) -> None:
    opened.seek(start)
    for piece in pieces(memory):
        while piece:
            size = opened.readinto(piece)
            if not size:
                raise FolderError("its file is damaged: it ends too early")
            piece = piece[size:]


def _why(error: BaseException, python: str, packages: dict[str, str]) -> str:
    if isinstance(error, FolderError):
        return str(error)
    if isinstance(error, PythonVersionError):
        return f"it has code of another version of Python ({python}, and this is {python_version()})"
    if isinstance(error, ModuleNotFoundError) and type(error.name) is str:
        package = error.name.partition(".")[0]
        return f"its package {package} is missing"
    told = describe_safely(error).text.strip().splitlines()[-1][:LONGEST]
    changed = [f"{package} was {version}, and is {now}" for package, version in packages.items() if (now := _version_of(package)) and now != version]
    if python.split(".")[:2] != python_version().split(".")[:2]:
        changed.append(f"Python was {python}, and is {python_version()}")
    return f"it cannot be read ({told})" + (f"; {'; '.join(changed)}" if changed else "")


def _version_of(package: str) -> str:
    version = getattr(sys.modules.get(package), "__version__", "")
    return version if type(version) is str else ""
