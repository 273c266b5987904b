"""Figures of the screen on a real pty: first picture, key echo under load, memory."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from tests.benchmarks.kernel import memory_mib
from tests.benchmarks.table import Row, since
from tests.e2e.terminal import DEADLINE, Terminal

BARE = [sys.executable, str(Path(__file__).with_name("bare_app.py"))]
OURS = [sys.executable, "-m", "mahtab_tui", "--model"]
_SEARCHING = [sys.executable, "-m", "tests.benchmarks.searching_app"]
# Each letter is typed once, so that its bytes in the output can be nothing but its echo.
LETTERS = [
    chr(code) for code in (*range(0x0430, 0x0450), *range(0x0561, 0x0587), *range(0x10D0, 0x10F0))
]
_LOADS = {
    "idle": "",
    "the kernel spins": "while True: pass",
    "the kernel sorts": "x = list(range(3_000_000, 0, -1))\nwhile True: sorted(x, key=str)",
    "the kernel prints a million lines": "for i in range(1_000_000): print(i, 'a line of output')",
    "large photos are shown": Path(__file__).with_name("photos.py").read_text("utf-8"),
}
_ANSWER = (
    "Some **words** of a longer answer, with `code` and more of it.\n\n- a list\n- of things\n\n"
)


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as home:
        bare = []
        ours = []
        for _ in range(11):  # in turns: the machine's own speed changes within seconds
            bare.append(_first_picture(BARE, "ready to type", home))
            ours.append(_first_picture([*OURS, "demo"], "mahtab", home))
        yield Row("first picture", ours, "<= 1.5 x bare", bare)
        baseline = bare_echo(home)
        yield Row("key echo of the bare app", baseline)
        for load, code in _LOADS.items():
            with our_terminal(home) as terminal:
                if code:
                    terminal.paste(code)
                    terminal.press("enter", "enter")
                    terminal.wait("busy")
                yield echo_row(load, key_echo(terminal), baseline)
        replay = Path(home, "replay.jsonl")
        line = {"text": _ANSWER * 200, "repeat": True, "tokens_per_second": 200}
        replay.write_text(json.dumps(line), "utf-8")
        with our_terminal(home, model=f"replay:{replay}") as terminal:
            early = memory_mib(terminal.pid)
            terminal.enter("`hello")
            terminal.wait("list")
            late = memory_mib(terminal.pid)
            yield echo_row("the model streams", key_echo(terminal), baseline)
        with Terminal(_SEARCHING, env={"HOME": home}) as terminal:
            terminal.wait("idle")
            yield echo_row("a search of 1,000 live calls streams", key_echo(terminal), baseline)
        yield Row("host memory, before the agent warms up", early, "<= 80 MiB", unit="MiB")
        yield Row("host memory, after", late, "<= 120 MiB", unit="MiB")


def _first_picture(argv: list[str], pattern: str, home: str) -> float:
    start = perf_counter()
    with Terminal(argv, env={"HOME": home}) as terminal:
        terminal.wait(pattern)
        return since(start)


@contextlib.contextmanager
def our_terminal(
    home: str, *options: str, model: str = "demo", cwd: Path | None = None
) -> Iterator[Terminal]:
    """Run the program in a terminal until its kernel is idle."""
    with Terminal([*OURS, model, *options], cwd=cwd, env={"HOME": home}) as terminal:
        terminal.wait("idle")
        yield terminal


def bare_echo(home: str) -> list[float]:
    """Milliseconds from each key to its echo in the bare application."""
    with Terminal(BARE, env={"HOME": home}) as terminal:
        terminal.wait("ready to type")
        return key_echo(terminal)


def echo_row(load: str, echo: Sequence[float], baseline: Sequence[float], note: str = "") -> Row:
    return Row(f"key echo, {load}", echo, "median <= 1.5 x, p99 <= 50 ms", baseline, note)


def key_echo(terminal: Terminal) -> list[float]:
    """Milliseconds from each key to its echo."""
    terminal.drawn = False  # drawing what it shows would be counted as the program's time
    start_offset = len(terminal.raw)
    took = []
    for letter in LETTERS:
        key_bytes = letter.encode()
        sent_offset = len(terminal.raw)
        start = perf_counter()
        terminal.send(key_bytes)
        while terminal.raw.find(key_bytes, sent_offset) < 0:
            terminal.pump(0.001)
            if perf_counter() - start > DEADLINE:
                raise AssertionError(f"A key was not echoed. The screen:\n{terminal.text}")
        took.append(since(start))
        settle = perf_counter() + 0.03
        while perf_counter() < settle:
            terminal.pump(0.005)
    terminal.drawn = True
    terminal.draw(bytes(terminal.raw[start_offset:]))
    return took
