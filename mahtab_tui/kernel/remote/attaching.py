"""Attaches to kernels on other machines, and stops those that wait."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import NamedTuple

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.detached import save_last_output
from mahtab_tui.kernel.messages import KernelReady, checked
from mahtab_tui.kernel.remote.address import parse_address
from mahtab_tui.kernel.remote.askpass import Ask
from mahtab_tui.kernel.remote.notes import KernelNote, Station
from mahtab_tui.kernel.remote.transport import (
    MAX_FINISH_TIMEOUT_S,
    KernelGone,
    Transport,
    open_transport,
)
from mahtab_tui.worker.link.frames import TOKEN_BYTES
from mahtab_tui.worker.link.spool import HEAD_BYTES, TAIL_BYTES
from mahtab_tui.worker.link.station_link import EXITED, OUTPUT, Link, LinkError

HOST_ID_BYTES = 8
"""Random bytes of the id of this process's connection."""
_MAX_OUTPUT_BYTES = HEAD_BYTES + 3 * TAIL_BYTES
"""More than the other machine keeps of a cell's output."""


class ConnectedKernel(NamedTuple):
    """A kernel on another machine, with the connection to it."""

    station: Station
    host_id: str
    """The id of this process's connection."""
    transport: Transport
    token: bytes
    """Part of each frame that the kernel sends, unknown to user code."""
    cell: int = 0
    """The cell that it ran when this host attached; 0 for none."""
    was_reattached: bool = False
    ready: KernelReady | None = None
    note: KernelNote | None = None
    """The note to find it by; None if no other host should find it."""


def attach_remote(note: KernelNote, ask: Ask) -> ConnectedKernel:
    """Attach to a remote kernel, even if another host has it.

    Args:
        note: Where the kernel is.
        ask: Asks the user for a password or a confirmation.

    Raises:
        KernelGone: The kernel has ended. The output of its last cell is saved.
        KernelError: The other machine cannot be reached, or does not answer as it should.
    """
    station = note.station
    host_id = secrets.token_hex(HOST_ID_BYTES)
    token = os.urandom(TOKEN_BYTES)
    request = {**station.request(host_id), "received": 0, "attach": token.hex()}
    transport = open_transport(parse_address(station.address), request, ask)
    if "last" in transport.answer:
        with contextlib.closing(transport):
            _save_last_output(note, transport)
        raise KernelGone(f"The kernel on {station.label} has ended in the meantime.")
    try:
        hello = transport.answer["hello"]
        return ConnectedKernel(
            station,
            host_id,
            transport,
            token,
            cell=int(transport.answer["cell"]),
            was_reattached=True,
            ready=checked(KernelReady, hello) if hello else None,
            note=note,
        )
    except (KeyError, TypeError, ValueError, OverflowError, KernelError):
        transport.close()
        raise KernelError(f"{station.label} does not respond like a kernel.") from None


def stop_remote(note: KernelNote, ask: Ask) -> None:
    """Stop a waiting kernel, and save its cell's output.

    Raises `KernelError` if the other machine cannot be reached.
    """
    with contextlib.suppress(KernelGone):
        request = {**note.station.request(), "stop": True}
        with contextlib.closing(
            open_transport(parse_address(note.station.address), request, ask)
        ) as transport:
            if "last" in transport.answer:
                _save_last_output(note, transport)
    note.forget()


def _save_last_output(note: KernelNote, transport: Transport) -> None:
    """Fetch and save the output of the cell in which a kernel ended.

    If this raises `KernelError`, the other machine keeps the output.
    """
    try:
        ending = _fetch_output(transport)
        cell = int(transport.answer["last"])
        save_last_output(note.session, note.station.name, cell, ending.output)
    except (OSError, TypeError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise KernelError(
            f"The output of the last cell on {note.station.label} cannot be saved: {reason}."
        ) from None
    # Only now may the other machine forget the output.
    with contextlib.suppress(OSError):
        os.write(transport.stdin, ending.confirmation)
    transport.finish(MAX_FINISH_TIMEOUT_S)


class _FetchedOutput(NamedTuple):
    """The output of a cell in which a kernel ended."""

    output: list[bytes]
    confirmation: bytes
    """Tells the other machine that all of it has arrived."""


def _fetch_output(transport: Transport) -> _FetchedOutput:
    """Receive the output of a cell in which a kernel ended. Raises `OSError` and `LinkError`."""
    link = Link()
    output: list[bytes] = []
    output_bytes = 0
    link.connect(transport.received_number)
    data = transport.buffered
    while True:
        has_ended = False
        for message in link.feed(data):
            if message.kind == EXITED:
                has_ended = True
            elif message.kind == OUTPUT:
                output.append(message.data)
                output_bytes += len(message.data)
        if output_bytes > _MAX_OUTPUT_BYTES:
            raise LinkError("more arrived than is kept there")

        confirmation = bytes(link.outgoing)
        link.outgoing.clear()
        if has_ended:
            return _FetchedOutput(output, confirmation)
        data = transport.exchange(confirmation)
