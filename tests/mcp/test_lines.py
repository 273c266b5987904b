"""Lines over the standard streams of the server."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import anyio
import pytest

from mahtab_tui.mcp.lines import LineReader, LineWriter

LONG = "x" * 300_000
TEXT = f'one\n{{"a": "Ås"}}\r\n\n{LONG}\nlast'


async def read_lines(descriptor: int) -> list[str]:
    return [line async for line in LineReader(descriptor)]


def write_slowly(descriptor: int, data: bytes) -> None:
    """Write in pieces that end inside of lines and characters, then close."""
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        for start in range(0, len(data), 4_999):
            file.write(data[start : start + 4_999])


@pytest.mark.parametrize("kind", ["pipe", "socket", "file"])
def test_lines_are_read_from_any_kind_of_file(kind: str, tmp_path: Path) -> None:
    if kind == "pipe":
        reading, writing = os.pipe()
    elif kind == "socket":
        near, far = socket.socketpair()
        reading = near.detach()
        writing = far.detach()
    else:
        path = tmp_path / "lines"
        writing = os.open(path, os.O_WRONLY | os.O_CREAT)
        reading = os.open(path, os.O_RDONLY)
    data = TEXT.encode() + b"\xff"
    writer = threading.Thread(target=write_slowly, args=(writing, data))
    writer.start()
    if kind == "file":
        writer.join()
    lines = anyio.run(read_lines, reading)
    writer.join()
    os.close(reading)
    assert "\n".join(lines) == f"{TEXT}�"


def test_text_that_is_not_taken_at_once_is_written_whole() -> None:
    reading, writing = os.pipe()
    received: list[bytes] = []

    def receive() -> None:
        while data := os.read(reading, 100_000):
            received.append(data)

    async def write() -> None:
        writer = LineWriter(writing)
        async with anyio.create_task_group() as tasks:
            # Nobody reads yet, and the loop goes on.
            for text in ("short\n", "y" * 60_000, LONG, "Ås\n"):
                await writer.write(text)
            tasks.start_soon(writer.flush)
            await anyio.sleep(0)
            thread.start()
        await writer.write("end")
        await writer.flush()
        os.close(writing)

    thread = threading.Thread(target=receive)
    anyio.run(write)
    thread.join()
    os.close(reading)
    assert b"".join(received).decode() == f"short\n{'y' * 60_000}{LONG}Ås\nend"
