"""Serves an editor over STDIO."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from mahtab_tui.protocol_streams import ProtocolStreams, take_stdio
from mahtab_tui.system import exit_by_signal

if TYPE_CHECKING:
    from mahtab_tui.acp.agent import EditorAgent

MAX_LINE_BYTES = 50 * 1024 * 1024
"""The longest message that is read. It may hold pictures."""
CLOSE_TIMEOUT_S = 8.0
"""Seconds that the sessions may take to end after a signal."""

NO_EDITOR = "An editor starts this command, and talks to it through pipes."


class AcpServerError(Exception):
    """The server cannot start; the message is a sentence."""


def serve() -> None:
    """Serve until the editor closes stdin. Raises `AcpServerError`."""
    streams = take_stdio()
    if not _is_pipe(streams.stdin):
        raise AcpServerError(NO_EDITOR)
    try:
        from mahtab_tui.acp.agent import EditorAgent
    except ImportError:
        raise AcpServerError(
            "Editors need the package agent-client-protocol: pip install 'mahtab-tui[acp]'."
        ) from None
    number = asyncio.run(_serve(streams, EditorAgent()))
    if number is not None:
        exit_by_signal(number)


async def _serve(streams: ProtocolStreams, agent: EditorAgent) -> signal.Signals | None:
    """Serve until stdin is closed, or a signal comes; return that signal.

    Raises `AcpServerError`.
    """
    from mahtab_tui.acp.protocol import connect

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    try:
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(streams.stdin, "rb")
        )
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(streams.stdout, "wb")
        )
    except ValueError:
        raise AcpServerError(NO_EDITOR) from None
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    listening = asyncio.create_task(connect(agent, writer, reader).listen())
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        received.append(number)
        listening.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    with suppress(asyncio.CancelledError):
        try:
            await listening
        except (AttributeError, TypeError):
            # The library expects objects.
            raise AcpServerError("The editor has sent what is not a message.") from None
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await agent.close()
    return received[0] if received else None


def _is_pipe(descriptor: int) -> bool:
    """Return whether something is written to a descriptor by another program."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
