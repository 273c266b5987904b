"""Reading variables that were kept, one file after the other."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from ..control import python_version
from ..tracebacks import describe_safely
from ..undo.reducing import PythonVersionError
from .folder import FolderError, KeptFolder, digest_of, pieces
from .pickling import load_cloudpickle, unpickled


class Loaded(NamedTuple):
    """What came out of a file."""

    variables: dict[str, Any]
    missing: dict[str, str]
    """Names that cannot be read, and why."""


def load(folder: KeptFolder, file: dict[str, Any], namespace: dict[str, Any], cloudpickle: str) -> Loaded:
    """Read a file of the index. cloudpickle: the package's folder. Raises `KeyboardInterrupt`."""
    load_cloudpickle(cloudpickle)
    found = Loaded({}, {})
    names = [row["name"] for group in file["groups"] for row in group["rows"]]
    try:
        with folder.open(file["name"]) as opened:
            for group in file["groups"]:
                _load_group(opened, group, namespace, file["python"], found)
    except (OSError, FolderError) as error:
        reason = str(error) if isinstance(error, FolderError) else f"its file cannot be read: {error.strerror}"
        found.missing.update({name: reason for name in names if name not in found.variables})
    return found


def _load_group(opened: Any, group: dict[str, Any], namespace: dict[str, Any], python: str, found: Loaded) -> None:
    start = group["start"]
    sizes: list[int] = group["blocks"]
    starts = [start + group["stream"] + sum(sizes[:number]) for number in range(len(sizes))]

    def fill(number: int, memory: memoryview) -> None:
        opened.seek(starts[number])
        for piece in pieces(memory):
            while piece:
                size = opened.readinto(piece)
                if not size:
                    raise FolderError("its file is damaged: it ends too early")
                piece = piece[size:]

    stream = bytearray(group["stream"])
    names = [row["name"] for row in group["rows"]]
    try:
        starts.append(start)
        fill(len(sizes), memoryview(stream))
        if digest_of([stream]) != group["check"]:
            raise FolderError("its file is damaged: it is not what was written")
        found.variables.update(unpickled(bytes(stream), sizes, fill, namespace))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # objects of the user's are made again
        found.missing.update(dict.fromkeys(names, _why(error, python, group["packages"])))


def _why(error: BaseException, python: str, packages: dict[str, str]) -> str:
    if isinstance(error, FolderError):
        return str(error)
    if isinstance(error, PythonVersionError):
        return f"it has code of another version of Python ({python}, and this is {python_version()})"
    if isinstance(error, ModuleNotFoundError) and type(error.name) is str:
        package = error.name.partition(".")[0]
        return f"its package {package} is missing"
    told = describe_safely(error).text.strip().splitlines()[-1]
    changed = [f"{package} was {version}, and is {now}" for package, version in packages.items() if (now := _version_of(package)) and now != version]
    if python.split(".")[:2] != python_version().split(".")[:2]:
        changed.append(f"Python was {python}, and is {python_version()}")
    return f"it cannot be read ({told})" + (f"; {'; '.join(changed)}" if changed else "")


def _version_of(package: str) -> str:
    version = getattr(sys.modules.get(package), "__version__", "")
    return version if type(version) is str else ""
