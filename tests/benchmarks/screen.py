"""The screen's figures, measured on a real pty: first picture, key echo under load, memory."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.kernel import memory_mib
from tests.benchmarks.table import Row, median, p99
from tests.e2e.terminal import DEADLINE, Terminal

BARE = [sys.executable, str(Path(__file__).with_name("bare_app.py"))]
_SEARCHING = [sys.executable, "-m", "tests.benchmarks.searching_app"]
OURS = [sys.executable, "-m", "mahtab_tui", "--model"]
# Each letter is typed once, so that its bytes in the output can be nothing but its echo.
_LETTERS = [
    chr(code) for code in (*range(0x0430, 0x0450), *range(0x0561, 0x0587), *range(0x10D0, 0x10F0))
]
_STARTS = 11
_LOADS = {
    "idle": "",
    "the kernel spins": "while True: pass",
    "the kernel sorts": "x = list(range(3_000_000, 0, -1))\nwhile True: sorted(x, key=str)",
    "the kernel prints a million lines": "for i in range(1_000_000): print(i, 'a line of output')",
    "large photos are shown": Path(__file__).with_name("photos.py").read_text("utf-8"),
}
_ANSWER = (
    "Some **words** of a longer answer, with `code` and more of it.\n\n- a list\n- of things\n\n"
    * 200
)


def rows() -> Iterator[Row]:
    """First picture, key echo, memory of the host."""
    with tempfile.TemporaryDirectory() as home:
        env = {"HOME": home}
        # By turns: the machine's own speed changes within seconds.
        pairs = [
            (
                _first_picture(BARE, "ready to type", env),
                _first_picture([*OURS, "demo"], "mahtab", env),
            )
            for _ in range(_STARTS)
        ]
        yield Row(
            "first picture",
            median([ours for _, ours in pairs]),
            "ms",
            "<= 1.5 x bare",
            median([bare for bare, _ in pairs]),
        )
        with Terminal(BARE, env=env) as terminal:
            terminal.wait("ready to type")
            terminal.drawn = False
            echo = key_echo(terminal)
        baseline = median(echo)
        yield Row("key echo of the bare app", baseline, "ms", "", note=f"p99 {p99(echo):.0f} ms")
        for load, code in _LOADS.items():
            yield _echo_row(load, code, [*OURS, "demo"], env, baseline)
        replay = Path(home, "replay.jsonl")
        replay.write_text(_replay_line(), "utf-8")
        yield _echo_row(
            "the model streams", "", [*OURS, f"replay:{replay}"], env, baseline, ask=True
        )
        yield _echo_row("a search of 1,000 live calls streams", "", _SEARCHING, env, baseline)
        with Terminal([*OURS, f"replay:{replay}"], env=env) as terminal:
            terminal.wait("idle")
            yield Row(
                "host memory, before the agent warms up",
                memory_mib(terminal.pid),
                "MiB",
                "<= 80 MiB",
            )
            terminal.type("`hello")
            terminal.press("enter")
            terminal.wait("list")
            yield Row("host memory, after", memory_mib(terminal.pid), "MiB", "<= 120 MiB")


def _replay_line() -> str:
    return json.dumps({"text": _ANSWER, "repeat": True, "tokens_per_second": 200})


def _first_picture(argv: list[str], seen: str, env: dict[str, str]) -> float:
    start = time.perf_counter()
    with Terminal(argv, env=env) as terminal:
        terminal.wait(seen)
        return (time.perf_counter() - start) * 1000


def _echo_row(
    load: str,
    code: str,
    argv: list[str],
    env: dict[str, str],
    baseline: float,
    *,
    ask: bool = False,
) -> Row:
    with Terminal(argv, env=env) as terminal:
        terminal.wait("idle")
        if ask:
            terminal.type("`hello")
            terminal.press("enter")
            terminal.wait("list")
        elif code:
            terminal.paste(code)
            terminal.press("enter", "enter")
            terminal.wait("busy")
        terminal.drawn = False  # drawing what it shows would be counted as the program's time
        echo = key_echo(terminal)
    return Row(
        f"key echo, {load}",
        median(echo),
        "ms",
        "median <= 1.5 x, p99 <= 50 ms",
        baseline,
        f"p99 {p99(echo):.0f} ms",
    )


def key_echo(terminal: Terminal) -> list[float]:
    """Milliseconds from each key to its echo."""
    took = []
    for letter in _LETTERS:
        wanted = letter.encode()
        seen = len(terminal.raw)
        start = time.perf_counter()
        terminal.send(wanted)
        while terminal.raw.find(wanted, seen) < 0:
            terminal.pump(0.001)
            if time.perf_counter() - start > DEADLINE:
                raise AssertionError(f"A key was not echoed. The screen:\n{terminal.text}")
        took.append((time.perf_counter() - start) * 1000)
        settle = time.perf_counter() + 0.03
        while time.perf_counter() < settle:
            terminal.pump(0.005)
    return took
