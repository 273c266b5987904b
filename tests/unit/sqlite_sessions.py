"""Records of sessions in SQLite, for tests."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

from mahtab_tui.bus.records import Record
from mahtab_tui.store.sqlite import load_records
from tests import tags
from tests.records import made

HOLD = "import sys, time\nfrom mahtab_tui.store.session_lock import lock_session\nlock = lock_session(sys.argv[1])\nprint('locked', flush=True)\ntime.sleep(1000)\n"
"""A program that locks the session with the id given as its argument."""


def cell(number: int, text: str = "x") -> Record:
    return made(tags.USER_REPL_IN, text, {"cell": number}, 1000.0 + number)


def texts(path: Path, session: str = "s") -> list[str]:
    return [record.text for _, record in load_records(path, session, limit=100_000).records]


def run(program: str, *args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def spoil(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement, values)
    connection.close()
