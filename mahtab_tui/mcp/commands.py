"""Running a command whose output is told while it comes."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import anyio


async def run_command(command: list[str], cwd: Path, environment: Mapping[str, str], on_text: Callable[[str], Awaitable[None]]) -> int:
    """Run a command to its end and return its exit code; cancelling this ends it with its children. Raises `OSError`.

    on_text: awaited with each piece of what it writes to stdout and stderr.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while data := await process.stdout.read(65536):
            await on_text(decoder.decode(data))
        return await process.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.wait()
        raise
