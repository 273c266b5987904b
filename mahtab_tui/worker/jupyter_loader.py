"""Loads the bundle in a Jupyter kernel, from memory."""

from __future__ import annotations

import base64
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from types import ModuleType

_FOLDER = "/mahtab-tui"
_WORKER = "worker/"


class Finder(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):  # type: ignore[misc]
    def __init__(self, name: str, files: Mapping[str, bytes]) -> None:
        self.name = name
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        try:
            file = self.get_filename(fullname)
        except ImportError:
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=self)

    def get_filename(self, fullname: str) -> str:
        top, _, rest = fullname.partition(".")
        path = f"{_FOLDER}/{_WORKER}{rest.replace('.', '/')}".rstrip("/")
        for file in (f"{path}/__init__.py", f"{path}.py"):
            if top == self.name and file in self._files:
                return file
        raise ImportError(fullname)

    def get_data(self, path: str) -> bytes:
        return self._files[path]


def load(name: str, bundle: str) -> None:
    """Modules next to the user's data must not be mistaken for the standard library's."""
    if f"{name}.jupyter_helper" in sys.modules:
        return
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(bundle))) as archive:
        names = [each for each in archive.namelist() if each.startswith(_WORKER)]
        files = {f"{_FOLDER}/{each}": archive.read(each) for each in names}
    sys.meta_path.insert(0, Finder(name, files))
    path = sys.path
    sys.path = [each for each in path if each not in ("", os.getcwd())]
    try:
        importlib.import_module(f"{name}.jupyter_helper")
    finally:
        sys.path = path
