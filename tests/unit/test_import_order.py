"""A package and a part of it, imported by the main thread and by another one."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from mahtab_tui.system.imports import IMPORTS, ImportOrder

TOGETHER = 0.5
"""Seconds after which the other thread waits for its turn, and not for a module."""


class Package(SourceFileLoader):
    """Finds a package, and makes it when another thread, which holds a part of it, waits for it."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(name, str(file))
        self.locked = threading.Event()
        """Set when its import has begun."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def create_module(self, spec: ModuleSpec) -> None:
        self.locked.set()
        end = time.monotonic() + TOGETHER
        while time.monotonic() < end and not importlib._bootstrap._blocking_on:  # type: ignore[attr-defined]
            time.sleep(0.001)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """A package that imports a part of itself."""
    name = "package_with_a_part"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(f"import {name}.part")
    (tmp_path / name / "part.py").write_text("")
    package = Package(name, tmp_path / name / "__init__.py")
    monkeypatch.setattr(sys, "meta_path", [package, *sys.meta_path])
    yield package
    for loaded in (name, f"{name}.part"):
        sys.modules.pop(loaded, None)


def failures(order: ImportOrder, package: Package, *, waits: bool) -> list[str]:
    """Failure where the main thread imports a package, and another thread a part of it, in its turn
    or not."""
    failed: list[str] = []

    def load(name: str) -> None:
        try:
            importlib.import_module(name)
        except Exception as error:
            failed.append(type(error).__name__)

    def import_in_thread() -> None:
        package.locked.wait(60)
        with order.turn() if waits else nullcontext():
            load(f"{package.name}.part")

    order.screen_begins()
    thread = threading.Thread(target=import_in_thread)
    thread.start()
    load(package.name)
    order.screen_ends()
    thread.join()
    return failed


def test_concurrent_imports_fail_in_plain_python(package: Package) -> None:
    assert failures(ImportOrder(), package, waits=False) == ["_DeadlockError"]


def test_import_lock_makes_concurrent_imports_succeed(package: Package) -> None:
    assert failures(ImportOrder(), package, waits=True) == []


def test_import_lock_is_exclusive_and_reentrant() -> None:
    order, inside, most = ImportOrder(), list[int](), list[int]()

    def load() -> None:
        with order.turn(), order.turn():
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_collection_is_off_while_the_import_lock_is_owned(collecting: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        with IMPORTS.turn(), IMPORTS.turn():
            assert not gc.isenabled()
        assert gc.isenabled() == collecting
    finally:
        (gc.enable if before else gc.disable)()
