"""Send random keys, clicks, pastes and resizes to the whole application with a real kernel.

``nice python -m tests.random_input 500`` makes 500 runs. It prints the seeds that ended in an
error, with their last actions, and then exits with 1. The same seed makes the same actions.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import os
import random
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from textual import events
from textual.geometry import Size

from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.kernel import process_kernel
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.input_history import History
from mahtab_tui.store.resume import new_store
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.key_parser import KeyParser
from mahtab_tui.tui.terminal_driver import StdioRedirect
from tests.skills import write_skill

ACTIONS = 150
PATIENCE = 120
"""Seconds that an action may take before the application counts as frozen."""
SIZES = (
    *((1, 1), (1, 30), (2, 3), (7, 4), (20, 5)),
    *((40, 60), (80, 24), (120, 35), (200, 50), (300, 2)),
)

_FUNCTION_KEYS = [
    *(f"\x1bO{letter}" for letter in "PQRS"),
    *(f"\x1b[{number}~" for number in (15, 17, 18, 19, 20, 21, 23, 24)),
]
_MOVES = [
    *(f"\x1b[{before}{end}" for before in ("", "1;2", "1;3", "1;5") for end in "ABCDHF"),
    *("\x1b[5~", "\x1b[6~", "\x1b[3~", "\t", "\x1b[Z"),
]
_CONTROLS = [
    *(chr(number) for number in range(1, 27) if chr(number) not in "\x03\x04\x11\x1a\r\t"),
    *("\x7f", "\x1b", "\x1b", "\r", "\r", "\r"),
]
_CHORDS = [f"\x1b{letter}" for letter in "abdefhjklmnprstuwxyz.<>/"]
_LETTERS = list("abcdefghijklmnopqrstuvwxyzAJNRXYM0123456789 ./@?`_()[]{}'\"=+-*:,#\\%äß中🙂\u0301")
_CODE = (
    "print('x' * 300)\r",
    "for i in range(40): print(i)\r\r",
    "1 / 0\r",
    "rows = [dict(a=i, b=str(i)) for i in range(99)]\r",
    "rows\r",
    "import time; time.sleep(0.3)\r",
    "input('name? ')\r",
    "display(rows)\r",
    "`how many rows are there?\r",
    "`show the first 5 rows of rows\r",
    "print('\\x1b]52;c;QUJD\\x07\\x1b[31mred')\r",
    "def f(a, b):\r",
    "rlm('how many?', 'abc ' * 2000)\r",
    *(f"`/{name}\r" for name in ("skills", "settings", "usage", "model", "cd", "theme")),
    *(f"`/{name}\r" for name in ("rewind", "undo", "redo", "context", "mcp")),
    "`/check\ry",
    "\x0fu\r\t\r",  # goes back to the newest point
    "rows?\r",
)
_BROKEN = (
    *("\x1b[1114112u", "\x1b[57441;1:3u", "\x1b[97;5:9u", "\x1b[;:u", "\x1b[48;0;0;0;0t"),
    *("\x1b[<0;9999999;99999M", "\x1b[1;:R", "\x1b]52;c;?\x07"),
)


def actions(chance: random.Random) -> Iterator[str | tuple[int, int]]:
    """Yield input that a terminal would send, or its new size."""
    size = (120, 35)

    def point() -> str:
        return f"{chance.randint(1, size[0])};{chance.randint(1, size[1])}"

    while True:
        kind = chance.random()
        if kind < 0.06:
            size = chance.choice(SIZES)
            yield size
        elif kind < 0.30:
            start = point()
            button = chance.choice((0, 0, 0, 2, 64, 65, 66, 67))
            moved = f"\x1b[<{button + 32};{point()}M" if chance.random() < 0.3 else ""
            released = button < 64 and chance.random() < 0.95
            end = f"{moved}\x1b[<{button};{start}m" if released else ""
            yield f"\x1b[<{button};{start}M{end}"
        elif kind < 0.34:
            yield f"\x1b[<35;{point()}M"
        elif kind < 0.39:
            letters = chance.choices([*_LETTERS, "\n"], k=chance.choice((1, 20, 2000)))
            yield f"\x1b[200~{''.join(letters)}\x1b[201~"
        elif kind < 0.45:
            yield chance.choice(_CODE)
        elif kind < 0.47:
            yield chance.choice(_BROKEN)
        elif kind < 0.48:
            yield chance.choice(("\x1b[O", "\x1b[I"))
        else:
            keys = (_FUNCTION_KEYS, _MOVES, _CONTROLS, _CHORDS, _LETTERS, _LETTERS)
            yield chance.choice(chance.choice(keys))


async def run(seed: int, count: int, on_start: Callable[[], None] = lambda: None) -> None:
    """Make one run in this process; `begun` is called before each action."""
    chance = random.Random(seed)
    settings = load_settings(
        model="demo", approval=chance.choice(("ask", "review", "auto")), share=False
    )
    store, name, past = new_store(Path.cwd())
    session = Session(
        settings, process_kernel(settings), HeadlessFrontend(), store=store, name=name, past=past
    )
    history = History(Path.home() / ".mahtab" / "history.db", str(Path.cwd()))
    app = MahtabApp(session, StdioRedirect(lambda text: None), history)
    latest_actions: deque[str | tuple[int, int]] = deque(maxlen=12)
    try:
        async with app.run_test(size=(120, 35)) as pilot:
            parser = KeyParser()
            driver = app._driver
            assert driver is not None
            for action, _ in zip(actions(chance), range(count), strict=False):
                if not app.is_running or app._exit:
                    break
                latest_actions.append(action)
                on_start()
                if isinstance(action, str):
                    for event in (*parser.feed(action), *parser.flush_pending()):
                        driver.process_message(event)
                else:
                    driver._size = action
                    driver.process_message(events.Resize(Size(*action), Size(*action)))
                if chance.random() < 0.7:
                    await asyncio.sleep(chance.choice((0, 0, 0.01, 0.05)))
                else:
                    await pilot.pause()
            app.exit()
    except BaseException:
        head = f"seed {seed}: the application ended after these actions:"
        print(head, *map(repr, latest_actions), sep="\n  ", flush=True)
        raise
    finally:
        await asyncio.to_thread(session.close)
        history.close()


def run_here(seed: int) -> None:
    """Make one run in a new home and project, which this process then keeps."""
    folder = Path(tempfile.mkdtemp(prefix="mahtab-random-"))
    project = folder / "project"
    project.mkdir()
    os.environ.update(HOME=str(folder), EDITOR="true", VISUAL="true", MAHTAB_KEEP_KERNEL="0")
    os.chdir(project)
    description = "How to tidy a room. Use when nothing can be found."
    write_skill(project / "skills", "tidy", description, "# Tidy\n\n1. Put **things** away.\n")
    (project / "data.csv").write_text("a,b\n1,2\n3,4\n", "utf-8")

    def watch() -> None:
        faulthandler.dump_traceback_later(PATIENCE, exit=True, file=2)

    asyncio.run(run(seed, ACTIONS, watch))
    faulthandler.cancel_dump_traceback_later()


def main() -> int:
    """Make each run in its own process, so that a freeze ends only that run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="how many runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    failed = []
    for seed in range(options.first, options.first + options.count):
        command = f"from tests.random_input import run_here; run_here({seed})"
        done = subprocess.run(
            [sys.executable, "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if done.returncode:
            print(done.stdout)
            failed.append(seed)
        print(f"seed {seed}: {'failed' if done.returncode else 'passed'}", flush=True)
    print(f"{options.count} runs, failed seeds:", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
