"""An error in the screen itself: the exit code says so, the traceback is kept, and the person is
told how to go on."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal

_BREAK = """
import sys
from mahtab_tui.cli.main import main
from mahtab_tui.tui.screens.help import HelpScreen
from mahtab_tui.tui.terminal_driver import TerminalDriver

def broken(*arguments):
    raise LookupError("no such \\x1b]52;c;QUJD\\x07 thing, nor sk-secret-key")

{where} = broken
sys.argv = ["mahtab-tui", "--model", "demo", *sys.argv[1:]]
main()
"""
TARGETS = ("HelpScreen.__init__", "TerminalDriver._without_answers")


@pytest.fixture
def broken(project: Path, home: Path) -> Path:
    (home / ".mahtab").mkdir()
    (home / ".mahtab" / "config.toml").write_text('[api_keys]\nopenai = "sk-secret-key"\n')
    return project


@pytest.mark.parametrize("where", TARGETS)
def test_crash_gives_an_exit_code_a_file_and_a_way_to_continue(
    broken: Path, home: Path, where: str
) -> None:
    script = broken / "broken.py"
    script.write_text(_BREAK.format(where=where))
    with Terminal([sys.executable, str(script)], cwd=broken) as screen:
        screen.wait("Python")
        if where == TARGETS[0]:
            screen.enter("kept = 42")
            screen.wait(r"kept\s+int")
        screen.press("f1")
        assert screen.wait_end() == 1
        assert "The screen crashed: LookupError: no such" in screen.text
        assert "--continue" in screen.text
        after = bytes(screen.raw).rpartition(b"\x1b[?1049l")[2]
        assert b"QUJD" not in after
        assert b"sk-secret-key" not in after
    (report,) = (home / ".mahtab" / "logs").glob("crash-*.txt")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    report_text = report.read_text()
    assert "LookupError" in report_text
    assert "broken.py" in report_text
    assert "\x1b" not in report_text
    assert "sk-secret-key" not in report_text
    if where == TARGETS[0]:
        with Terminal(
            [str(Path(sys.executable).with_name("mahtab-tui")), "--model", "demo", "--continue"],
            cwd=broken,
        ) as screen:
            screen.wait("kept = 42")


def test_crash_of_a_no_trace_session_is_reported_and_not_saved(broken: Path, home: Path) -> None:
    script = broken / "broken.py"
    script.write_text(_BREAK.format(where=TARGETS[0]))
    with Terminal([sys.executable, str(script), "--no-store"], cwd=broken) as screen:
        screen.wait("Python")
        screen.press("f1")
        assert screen.wait_end() == 1
        after_screen = bytes(screen.raw).rpartition(b"\x1b[?1049l")[2].decode()
    assert "The screen crashed: LookupError: no such" in after_screen
    assert "Its traceback, which is not saved:" in after_screen
    assert "broken.py" in after_screen
    assert "--continue" not in after_screen
    assert "sk-secret-key" not in after_screen
    assert not list((home / ".mahtab").rglob("crash-*"))
