"""Cells that were only allowed to read write, start, connect to and delete nothing without a question, whatever they try."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import CellResult
from mahtab_tui.session.rights import verdict_of
from mahtab_tui.settings.approval_rules import rules_of
from tests.integration.hostile_cells import HELD_BY_THEIR_TEXT, HELD_BY_WHAT_THEY_DO, LATER, OF_ONE_KERNEL, WITHOUT_A_QUESTION
from tests.integration.kernels import RecordingHost

READ_ONLY = rules_of(("allow: read_only",))
USER = "from concurrent.futures import ThreadPoolExecutor; POOL = ThreadPoolExecutor(1); POOL.submit(len, '').result()"
TRIES = list(HELD_BY_WHAT_THEY_DO.items())


class Canaries:
    """A folder with what must stay as it is, and a port that nobody may connect to."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "inside").mkdir()
        (folder / "inside" / "file").write_text("kept")
        (folder / "inside" / "inside.py").write_text("x = 1")
        (folder / "kept").write_text("kept")
        self.folder = folder
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.before = self.seen()

    @property
    def names(self) -> str:
        """A cell of the user's that names them."""
        port = self.listener.getsockname()[1]
        return f"P, Q, D, PORT = {str(self.folder / 'made')!r}, {str(self.folder / 'kept')!r}, {str(self.folder / 'inside')!r}, {port}\n{USER}"

    def seen(self) -> list[object]:
        """All files with what is in them, and when they were changed."""
        paths = sorted(self.folder.rglob("*"))
        return [(str(path), path.lstat().st_mode, path.lstat().st_mtime_ns if path.is_file() else 0, _content(path)) for path in paths]

    def connected(self) -> bool:
        try:
            self.listener.accept()
        except BlockingIOError:
            return False
        return True


def _content(path: Path) -> object:
    return (path.read_bytes(), os.listxattr(path)) if path.is_file() and not path.is_symlink() else ""


class Limited:
    """A kernel whose host refuses everything, and notes what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.host = RecordingHost()
        self.asked: list[Mapping[str, Any]] = []
        self.host.answer = self._answer
        self.kernel = ProcessKernel(cwd=str(folder))
        self.kernel.start(self.host)
        self._number = 0

    def _answer(self, name: str, args: Mapping[str, Any]) -> Any:
        if name == "effect":
            self.asked.append(args)
            return {"allowed": False, "all": False, "why": "Not now."}
        if name == "terminal":
            raise AssertionError("a program was started in the terminal")
        return None

    def run(self, code: str, *, limited: bool = False) -> CellResult:
        self._number += 1
        return self.kernel.execute(code, cell=self._number, on_output=lambda kind, text: None, limited=limited)


@pytest.mark.parametrize("first", [pytest.param(first, marks=[pytest.mark.slow] if first else []) for first in range(0, len(TRIES), 8)])
def test_nothing_happens_without_a_question(first: int, tmp_path: Path) -> None:
    limited: Limited | None = None
    tried = []
    for place, (what, code) in enumerate(TRIES[first : first + 8]):
        canaries = Canaries(tmp_path / str(place))
        limited = limited or Limited(canaries.folder)
        limited.asked = []
        limited.run(f"import os; os.chdir({str(canaries.folder)!r})\n{canaries.names}")
        limited.run(code, limited=True)
        state = limited.run("import os; print(os.environ.get('MARK'), os.getcwd())").output
        limited.run(LATER)
        limited.run("try: next(later)\nexcept Exception: pass")
        tried.append((what, canaries, limited.asked, state))
        if what not in OF_ONE_KERNEL:
            limited.kernel.close()
            limited = None
    if limited is not None:
        limited.kernel.close()
    failed = []
    for what, canaries, asked, state in tried:
        if (
            canaries.seen() != canaries.before
            or canaries.connected()
            or bool(asked) == (what in WITHOUT_A_QUESTION)
            or not (f"None {canaries.folder}\n" in state or "NotAllowedError" in state)  # a thread or signal may be refused just then
        ):
            changed = [each for each in canaries.seen() if each not in canaries.before]
            failed.append((what, changed, len(asked), state))
        canaries.listener.close()
    assert failed == []


def test_there_are_a_hundred_of_them() -> None:
    assert len(HELD_BY_WHAT_THEY_DO) >= 100


@pytest.mark.parametrize("code", HELD_BY_THEIR_TEXT.values(), ids=HELD_BY_THEIR_TEXT)
def test_what_python_hears_nothing_of_asks_by_its_text(code: str) -> None:
    assert verdict_of(READ_ONLY, code).action == ""
