"""From the first line of the package to the command: an interrupt is no failure, and loading is not
held up by the collector."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = ["-m", "mahtab_tui"]
SCRIPT = ["-c", "from mahtab_tui.__main__ import main; main()"]
INTERRUPTED = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\n"


def run(arguments: list[str], loads: Path) -> subprocess.CompletedProcess[str]:
    """A new interpreter that finds modules in a folder first."""
    path = os.pathsep.join([str(loads), *sys.path])
    env = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("entry", [MODULE, SCRIPT], ids=["module", "script"])
@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("typer", INTERRUPTED),
        (
            "typer",
            f"try:\n    {INTERRUPTED.replace(chr(10), chr(10) + '    ')}\nexcept BaseException:\n    raise RuntimeError('in other words')\n",
        ),
        ("signal", "raise KeyboardInterrupt\n"),
    ],
    ids=["while a library is loaded", "in a library that catches it", "at the very beginning"],
)
def test_interrupt_during_loading_exits_silently(
    tmp_path: Path, entry: list[str], module: str, code: str
) -> None:
    (tmp_path / f"{module}.py").write_text(code)
    done = run([*entry, "doctor"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ignored_interrupt_stays_ignored(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(INTERRUPTED + "print('went on'); os._exit(0)\n")
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = run(MODULE, tmp_path)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_collection_is_off_while_loading_and_on_afterwards(
    tmp_path: Path,
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, gc\natexit.register(lambda: print('ran', gc.isenabled()))\n"
    )
    (tmp_path / "typer.py").write_text(
        "import gc, importlib, sys\nsys.path.remove(__file__.rpartition('/')[0])\nprint('loads', gc.isenabled())\n"
        "del sys.modules['typer']\nsys.modules['typer'] = importlib.import_module('typer')\n"
    )
    done = run(["-m", "mahtab_tui", "sessions"], tmp_path)
    assert done.stdout.split("\n")[0] == "loads False"
    assert done.stdout.rstrip().endswith("ran True"), done.stderr
