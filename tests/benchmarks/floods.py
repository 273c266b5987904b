"""Keys while an agent floods the session with displays.

``python -m tests.benchmarks floods [NAME ...]`` measures how long a key takes until it is drawn,
and prints a line for each flood. On a busy machine, the column ``own`` says more: it leaves out the
time for which the main thread was ready to run, but had no processor. ``pieces`` are the longest
pieces of work on the main thread between two keys, in milliseconds of its processor time; a key
that comes during such a piece waits for its end. ``--nice -5`` lets it all run before other
programs, if the user may do that.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from asyncio.events import Handle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from tests.benchmarks.mcp import ROOT, SHARED, connected
from tests.benchmarks.screen import LETTERS
from tests.e2e.terminal import DEADLINE, Terminal

KEYS = 100
KEY_INTERVAL_S = 0.08
FLOOD_BEFORE_KEYS_S = 2.0
MIN_PIECE_S = 0.02
"""Of processor time; shorter pieces of work are not listed."""
PIECES_VARIABLE = "MAHTAB_BENCHMARK_PIECES"
"""Names the file to which the application writes its long pieces of work."""

_PNG = """\
import os, random, struct, zlib
def chunk(name, data):
    return struct.pack("!I", len(data)) + name + data + struct.pack("!I", zlib.crc32(name + data))
def png(seed):
    lines = b"".join(b"\\0" + bytes((x * seed + y) % 256 for x in range(2400)) for y in range(600))
    head = struct.pack("!IIBBBBB", 800, 600, 8, 2, 0, 0, 0)
    return (b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines, 1)) + chunk(b"IEND", b""))
class Picture:
    def __init__(self, data): self.data = data
    def _repr_png_(self): return self.data
pngs = [png(seed) for seed in range(1, 21)]
"""
_TEXT = """\
class Text:
    def __init__(self, text): self.text = text
    def _repr_markdown_(self): return self.text
part = "## Part {0}\\n\\nSome **words** of a text, with `code` and [a link](https://example.org).\\n\\n- one\\n- two\\n\\n| a | b |\\n|---|---|\\n| 1 | {0} |\\n\\n```python\\nx = {0}\\n```\\n\\n"
"""
_TABLE = """\
class Table:
    def __init__(self, number): self.number = number
    def _repr_html_(self):
        rows = "".join("<tr>" + "".join(f"<td>{self.number * i * j}</td>" for j in range(6)) + "</tr>" for i in range(20))
        return f"<table><tr>{'<th>name</th>' * 6}</tr>{rows}</table>"
"""
FLOODS: Mapping[str, tuple[str, str]] = {
    "quiet": ("", "pass"),
    "words": ("", "for i in range(20_000): print(i, 'a line of output')"),
    "markdown": (_TEXT, "for i in range(1_000): display(Text(part.format(i)))"),
    "tables": (_TABLE, "for i in range(1_000): display(Table(i))"),
    "long": (
        f"{_TEXT}texts = [''.join(part.format(i * 2_000 + j) for j in range(1_650))[:290_000] for i in range(40)]\n",
        "for text in texts: display(Text(text))",
    ),
    "pictures": (_PNG, "for i in range(200): display(Picture(pngs[i % 20]))"),
    "variables": (
        "",
        "for i in range(20_000): globals()[f'v{i}'] = globals().get(f'v{i}', 0) + 1",
    ),
}
"""For each name, the code that prepares a flood, and the cell that is repeated."""


class KeyTime(NamedTuple):
    """How long a key took until it was drawn."""

    milliseconds: float
    waited_milliseconds: float
    """The time in it for which the main thread had no processor, although it was ready to run."""


class Piece(NamedTuple):
    """A long piece of work on the main thread."""

    milliseconds: float
    """Of its processor time."""
    name: str


def run_app() -> None:
    """Run the program, and write each long piece of work of its main thread to a file."""
    path = os.environ.pop(PIECES_VARIABLE)
    pieces = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115
    run = Handle._run

    def timed_run(handle: Handle) -> None:
        start = time.thread_time()
        run(handle)
        seconds = time.thread_time() - start
        if seconds >= MIN_PIECE_S:
            task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
            name = task.get_name() if isinstance(task, asyncio.Task) else repr(handle)
            pieces.write(json.dumps([seconds * 1_000, name]) + "\n")

    Handle._run = timed_run  # type: ignore[method-assign, assignment]
    collection_start = 0.0

    def time_collection(phase: str, info: Mapping[str, int]) -> None:
        nonlocal collection_start
        if phase == "start":
            collection_start = time.thread_time()
        elif (seconds := time.thread_time() - collection_start) >= MIN_PIECE_S:
            name = f"collection of generation {info['generation']}"
            pieces.write(json.dumps([seconds * 1_000, name]) + "\n")

    gc.callbacks.append(time_collection)
    from mahtab_tui.__main__ import main

    main()


async def flood(setup: str, cell: str) -> None:
    """Join the session of the working directory, and repeat a cell until stdin is closed."""
    enough = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    async with connected(SHARED) as client:
        await client.call_tool("eval", {"code": setup or "pass"})
        print("ready", flush=True)
        while not enough.done():
            result = await client.call_tool("eval", {"code": cell})
            assert not result.is_error, result


def _wait_ms(pid: int) -> float:
    """Return for how long a main thread has waited for a processor, since its start."""
    try:
        _, waited_ns, _ = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    except (OSError, ValueError):  # not on Linux
        return 0.0
    return int(waited_ns) / 1e6


def type_keys(terminal: Terminal) -> list[KeyTime]:
    """Type letters, each of which is drawn only once, and wait for each."""
    terminal.drawn = False
    times: list[KeyTime] = []
    for letter in LETTERS[:KEYS]:
        key = letter.encode()
        offset = len(terminal.raw)
        start = perf_counter()
        waited_ms = _wait_ms(terminal.pid)
        terminal.send(key)
        while terminal.raw.find(key, offset) < 0:
            terminal.pump(0.001)
            if perf_counter() - start > DEADLINE:
                raise AssertionError("A key was not drawn.")
        took_ms = (perf_counter() - start) * 1_000
        times.append(KeyTime(took_ms, _wait_ms(terminal.pid) - waited_ms))
        next_key = perf_counter() + KEY_INTERVAL_S
        while perf_counter() < next_key:
            terminal.pump(0.005)
    return times


@contextlib.contextmanager
def _flooding(name: str, home: str, terminal: Terminal, folder: Path) -> Iterator[None]:
    """Let an agent flood the session of a folder."""
    command = [sys.executable, "-m", "tests.benchmarks.floods", "--flood", name]
    environment = {**os.environ, "HOME": home, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        try:
            while not select.select([agent.stdout], [], [], 0)[0]:
                terminal.pump(0.01)
            end = perf_counter() + FLOOD_BEFORE_KEYS_S
            while perf_counter() < end:
                terminal.pump(0.01)
            yield
        finally:
            agent.stdin.close()
            agent.kill()


def measure(name: str) -> tuple[list[KeyTime], list[Piece]]:
    """Return the times of keys during a flood, and the application's long pieces of work."""
    # The killed program's children may still write there.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        folder = Path(home, "project")
        folder.mkdir()
        pieces_path = Path(home, "pieces")
        pieces_path.touch()
        environment = {"HOME": home, PIECES_VARIABLE: str(pieces_path), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.benchmarks.floods", "--app"]
        options = ["--model", "demo", "--approval", "auto"]
        with Terminal([*command, *options], cwd=folder, env=environment) as terminal:
            terminal.wait("idle")
            terminal.drawn = False
            with _flooding(name, home, terminal, folder):
                earlier_bytes = pieces_path.stat().st_size
                times = type_keys(terminal)
                lines = pieces_path.read_bytes()[earlier_bytes:].decode().splitlines()
        return times, [Piece(*json.loads(line)) for line in lines]


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def _describe(name: str, times: Sequence[KeyTime], pieces: Sequence[Piece]) -> str:
    whole = [key.milliseconds for key in times]
    own = [key.milliseconds - key.waited_milliseconds for key in times]
    longest = sorted(pieces, reverse=True)[:3]
    longest_words = ", ".join(f"{piece.milliseconds:.0f} {piece.name}" for piece in longest)
    return (
        f"{name:10} p50 {statistics.median(whole):4.0f}  p95 {_p95(whole):4.0f}  "
        f"max {max(whole):4.0f} ms | own p50 {statistics.median(own):4.0f}  p95 {_p95(own):4.0f}  max {max(own):4.0f} | "
        f"{len(pieces)} pieces of {sum(piece.milliseconds for piece in pieces):.0f} ms: {longest_words}"
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FLOODS))
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--flood", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.flood:
        asyncio.run(flood(*FLOODS[options.flood]))
        return
    if options.nice:
        os.nice(options.nice)
    for name in options.names or FLOODS:
        print(_describe(name, *measure(name)), flush=True)


if __name__ == "__main__":
    if "--app" in sys.argv:
        sys.argv.remove("--app")
        run_app()
    else:
        main(sys.argv[1:])
