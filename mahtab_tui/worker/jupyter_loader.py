"""Loads the bundle in a Jupyter kernel, from memory. The host sends this file's text, and calls
`load`."""

from __future__ import annotations

import base64
import importlib.abc
import importlib.machinery
import io
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from types import CodeType, ModuleType

_TOP = "worker"
_FOLDER = "/mahtab-tui"
"""The folder that tracebacks show for the files. Nothing is written."""


class Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the bundle's modules under our package's name."""

    def __init__(self, name: str, files: Mapping[str, str]) -> None:
        self.name = name
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = self._file(fullname)
        if file is None:
            return None
        package = file.endswith("/__init__.py")
        spec = importlib.machinery.ModuleSpec(
            fullname, self, origin=f"{_FOLDER}/{file}", is_package=package
        )
        spec.has_location = True
        return spec

    def is_package(self, fullname: str) -> bool:
        return (self._file(fullname) or "").endswith("/__init__.py")

    def get_source(self, fullname: str) -> str:
        return self._files[self._file(fullname) or ""]

    def get_code(self, fullname: str) -> CodeType:
        source, file = self.get_source(fullname), self._file(fullname)
        code: CodeType = compile(source, f"{_FOLDER}/{file}", "exec", dont_inherit=True)
        return code

    def _file(self, fullname: str) -> str | None:
        top, *rest = fullname.split(".")
        if top != self.name:
            return None
        path = "/".join([_TOP, *rest])
        return next(
            (file for file in (f"{path}/__init__.py", f"{path}.py") if file in self._files), None
        )


def load(name: str, bundle: str) -> None:
    """Make the package importable. Modules next to the user's data must not be mistaken for the
    standard library's."""
    if f"{name}.jupyter_helper" in sys.modules:
        return
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(bundle))) as archive:
        files = {
            name: archive.read(name).decode()
            for name in archive.namelist()
            if name.startswith(_TOP + "/")
        }
    sys.meta_path.insert(0, Finder(name, files))
    path = sys.path
    sys.path = [each for each in path if each not in ("", os.getcwd())]
    try:
        importlib.import_module(f"{name}.jupyter_helper")
    finally:
        sys.path = path
