"""Requests and messages to a kernel that may neither answer nor read, and their frames."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.backlog import Backlog
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.chunks import Chunks
from mahtab_tui.kernel.inprocess_output import CellOutput, InProcessEnvironment
from mahtab_tui.kernel.messages import CellEnd
from mahtab_tui.kernel.operations import Operations
from mahtab_tui.kernel.outbox import MAX_QUEUED_BYTES, Outbox, OutgoingFullError
from mahtab_tui.kernel.requests import MAX_OPEN_REQUESTS, ControlRequests
from mahtab_tui.kernel.running_cell import RunningCells
from mahtab_tui.kernel.spooled_output import SpooledOutput
from mahtab_tui.sandbox.searched_text import without_surrogates
from mahtab_tui.system import start_thread
from mahtab_tui.worker.cells.console import Replacement
from mahtab_tui.worker.link.frames import MAX_FRAME_BYTES, Frame, FrameError, FrameReader, encode
from mahtab_tui.worker.link.spool import Spool
from mahtab_tui.worker.link.station_link import FRAMES as FRAMES_KIND
from mahtab_tui.worker.link.station_link import Link, LinkError
from tests.waiting import wait_for

MEGABYTE = 2**20

# Any text, lone surrogates and NUL too.
TEXT = st.text(st.characters(), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXT, children, max_size=3),
    max_leaves=8,
)
FRAMES = st.lists(st.fixed_dictionaries({"op": TEXT, "value": VALUES}), max_size=4)


def test_unanswered_requests_are_limited() -> None:
    sent: list[Frame] = []
    requests = ControlRequests(sent.append)
    for _ in range(2 * MAX_OPEN_REQUESTS):
        with pytest.raises(KernelError, match="does not answer"):
            requests.ask(Operations.variables, 0)
    assert len(sent) == MAX_OPEN_REQUESTS
    requests.on_reply({"op": "reply", "id": sent[0]["id"], "value": "too late"})
    with pytest.raises(KernelError, match="does not answer"):
        requests.ask(Operations.variables, 0)
    assert len(sent) == MAX_OPEN_REQUESTS + 1


def test_bad_reply_is_refused() -> None:
    sent: list[Frame] = []
    requests = ControlRequests(sent.append)
    waiter = ThreadPoolExecutor(1).submit(requests.ask, Operations.variables, 60)
    wait_for(lambda: sent)
    bad: list[Frame] = [{"id": sent[0]["id"]}, {"id": []}, {}]
    for frame in bad:
        with pytest.raises((KeyError, TypeError)):
            requests.on_reply({"op": "reply", **frame})
    requests.end("The kernel died.")
    with pytest.raises(KernelError, match=r"^The kernel died\.$"):
        waiter.result(60)
    with pytest.raises(KernelError, match="died"):
        requests.ask(Operations.variables, 60)


Ends = tuple[Outbox, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    outgoing = Outbox(lambda: None)
    outgoing.channel = ours
    yield outgoing, theirs
    theirs.close()
    outgoing.close()


def read(end: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += end.recv(MEGABYTE)
    return bytes(data)


def senders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mahtab-outgoing"]


@pytest.mark.timeout(60)
def test_waiting_messages_arrive_in_order(ends: Ends) -> None:
    outgoing, kernel = ends
    messages = [bytes([number]) * MEGABYTE for number in range(20)]
    for message in messages:
        outgoing.send(message)
    assert read(kernel, 20 * MEGABYTE) == b"".join(messages)
    wait_for(lambda: not senders())
    outgoing.send(b"after that")
    assert not senders(), "what the socket takes at once needs no thread"
    assert read(kernel, 10) == b"after that"


@pytest.mark.timeout(60)
def test_backlog_is_limited(ends: Ends) -> None:
    outgoing, kernel = ends
    outgoing.send(bytes(2 * MAX_QUEUED_BYTES))
    with pytest.raises(OutgoingFullError):
        outgoing.send(b"too much")
    assert len(read(kernel, 2 * MAX_QUEUED_BYTES)) == 2 * MAX_QUEUED_BYTES
    wait_for(lambda: not senders())
    outgoing.send(b"now station_link is room")
    assert read(kernel, 17) == b"now station_link is room"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("end", [0, 1], ids=["ours", "the kernel's"])
def test_closed_connection_leaves_no_thread(ends: Ends, end: int) -> None:
    outgoing, _ = ends
    outgoing.send(bytes(10 * MEGABYTE))
    assert senders()
    ends[end].close()
    wait_for(lambda: not senders())
    outgoing.send(b"lost")


@example([{"op": "x", "value": "\ud800a\0b\U0001f319\u202e[{"}], [1])
@given(FRAMES, st.lists(st.integers(1, 40), min_size=1))
def test_frames_round_trip_in_pieces_of_any_size(
    frames: list[dict[str, Any]], sizes: list[int]
) -> None:
    data = b"".join(map(encode, frames))
    piece_sizes = itertools.cycle(sizes)
    reader = FrameReader()
    read_frames: list[dict[str, Any]] = []
    while data:
        size = next(piece_sizes)
        read_frames += reader.feed(data[:size])
        data = data[size:]
    assert read_frames == frames


def framed(body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + body


@pytest.mark.parametrize(
    "body",
    [b"not json", b"[]", b"{}", b'{"op":1}', b"\xff\xff", b"", b"[" * 100_000],
    ids=lambda body: repr(body[:8]),
)
def test_malformed_frame_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError):
        next(FrameReader().feed(framed(body)))


def test_absurd_length_is_refused_before_buffering() -> None:
    with pytest.raises(FrameError, match="announced"):
        next(FrameReader().feed(struct.pack("!I", MAX_FRAME_BYTES + 1)))


@given(st.integers(0, 100))
def test_frames_before_a_bad_one_are_read_however_the_pipe_cuts_them(cut: int) -> None:
    frames = [{"op": "a"}, {"op": "b"}]
    data = b"".join(map(encode, frames)) + framed(b"not a frame")
    reader = FrameReader()
    read_frames: list[Frame] = []

    def read() -> None:
        for piece in (data[:cut], data[cut:]):
            for frame in reader.feed(piece):
                read_frames.append(frame)

    with pytest.raises(FrameError, match="does not parse"):
        read()
    assert read_frames == frames


def test_a_frame_that_was_not_taken_comes_with_the_next_bytes() -> None:
    reader = FrameReader()
    next(reader.feed(encode({"op": "a"}) + encode({"op": "b"})))
    assert list(reader.feed(encode({"op": "c"}))) == [{"op": "b"}, {"op": "c"}]


def test_values_that_json_cannot_carry_are_errors() -> None:
    with pytest.raises(TypeError):
        encode({"op": "call", "args": {"value": object()}})
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(FrameError, match="deeply"):
        encode({"op": "call", "args": value})
    value = []
    value.append(value)
    with pytest.raises(FrameError, match="Circular"):
        encode({"op": "call", "args": value})
    with pytest.raises(FrameError, match="digits"):
        encode({"op": "call", "args": 10**10_000})


@pytest.mark.parametrize(
    ("start", "piece", "end"),
    [
        (b'"', b'\\"', b""),
        (b"", b'""', b""),
        (b'"', b"\\\\", b""),
        (b"", b'"a', b""),
        (b'{"op":"', b'\\"', b'"}'),
    ],
)
def test_hostile_frame_is_checked_in_linear_time(start: bytes, piece: bytes, end: bytes) -> None:
    """A quadratic reader would take hours, and block every other thread."""
    data = framed(start + piece * 3_000_000 + end)

    def read() -> None:
        with contextlib.suppress(FrameError):
            list(FrameReader(max_structure_bytes=4 * 2**20).feed(data))

    reading = multiprocessing.get_context("fork").Process(target=read)
    reading.start()
    reading.join(120)
    exit_code = reading.exitcode
    reading.kill()
    assert exit_code == 0


def test_strings_end_where_json_ends_them() -> None:
    text = json.dumps({"op": "a", "x": "\\", "y": '\\" and "', "z": "\\" * 7}).encode()
    structure_bytes = len(json.dumps({"op": "", "x": "", "y": "", "z": ""})) - len("opxyz")
    assert list(FrameReader(max_structure_bytes=structure_bytes).feed(framed(text)))
    with pytest.raises(FrameError, match="outside"):
        list(FrameReader(max_structure_bytes=structure_bytes - 1).feed(framed(text)))


def test_smaller_limits_may_be_set() -> None:
    frame: Frame = {"op": "a", "text": "x" * 100}
    with pytest.raises(FrameError):
        list(FrameReader(max_body_bytes=100).feed(encode(frame)))
    with pytest.raises(FrameError):
        encode(frame, max_body_bytes=100)


def test_lone_surrogates_become_question_marks() -> None:
    broken = {"op": "a", "x": ["\ud800é", {"\udc00": 1}]}
    assert without_surrogates(broken) == {"op": "a", "x": ["?é", {"?": 1}]}
    frame = {"op": "a", "x": "😀"}
    assert without_surrogates(frame) is frame


@pytest.fixture
def links() -> tuple[Link, Link]:
    host_link = Link()
    station_link = Link()
    host_link.connect(0)
    station_link.connect(0)
    return host_link, station_link


def test_duplicate_frames_are_handled_once(links: tuple[Link, Link]) -> None:
    host_link, station_link = links
    host_link.send(FRAMES_KIND, b"one")
    data = bytes(host_link.outgoing)
    assert [message.data for message in station_link.feed(data + data)] == [b"one"]


def test_undelivered_frames_are_sent_again(links: tuple[Link, Link]) -> None:
    host_link, station_link = links
    for data in (b"one", b"two"):
        host_link.send(FRAMES_KIND, data)
    first_messages = station_link.feed(bytes(host_link.outgoing[:20]))
    station_link.disconnect()
    station_link.connect(0)
    host_link.connect(station_link.received_number)
    messages = [*first_messages, *station_link.feed(bytes(host_link.outgoing))]
    assert [message.data for message in messages] == [b"one", b"two"]


def test_missing_message_closes_the_connection(links: tuple[Link, Link]) -> None:
    host_link, station_link = links
    host_link.send(FRAMES_KIND, b"one")
    host_link.outgoing.clear()
    host_link.send(FRAMES_KIND, b"two")
    with pytest.raises(LinkError, match="missing"):
        station_link.feed(bytes(host_link.outgoing))


@pytest.fixture
def printed(tmp_path: Path) -> Iterator[SpooledOutput]:
    """The output "one" of a kernel that was left."""
    reader, writer = os.pipe()
    os.write(writer, b"one")
    with open(tmp_path / "spool", "w+b") as spool_file:
        yield SpooledOutput(Spool(reader, spool_file.fileno()))
    os.close(reader)
    os.close(writer)


def backlog_message(*events: Mapping[str, object]) -> dict[str, object]:
    return {
        "acknowledged": 0,
        "events": events,
        "calls": [],
        "saved": {"carried": None, "lost": []},
    }


def refuse_end(cell_end: CellEnd) -> None:
    raise KernelError(f"cell {cell_end.cell} has not begun")


@pytest.mark.parametrize(
    "event",
    [{"begin": 2}, {"begin": "two", "at": 3}, {"done": {}, "at": 3}],
    ids=["without an offset", "without a number", "without a status"],
)
def test_nothing_is_replayed_of_malformed_events(
    printed: SpooledOutput, event: dict[str, object]
) -> None:
    cells = RunningCells()
    backlog = Backlog(cells, Chunks(lambda text: None), lambda display: None, refuse_end)
    with pytest.raises(KernelError, match="RecordedEvents"):
        backlog.replay(backlog_message({"begin": 1, "at": 0}, event), printed)
    assert not backlog.recorded.done()
    assert list(cells) == []


def test_no_cell_waits_for_an_end_that_was_not_replayed(printed: SpooledOutput) -> None:
    cells = RunningCells()
    backlog = Backlog(cells, Chunks(lambda text: None), lambda display: None, refuse_end)
    end = CellEnd(9, Status.OK, (), (), (), 0.0, "")
    events = ({"begin": 1, "at": 0}, {"done": asdict(end), "at": 3}, {"begin": 2, "at": 3})
    with pytest.raises(KernelError, match="cell 9 has not begun"):
        backlog.replay(backlog_message(*events), printed)
    assert not backlog.recorded.done()
    # Whatever runs gets a result when the kernel is killed.
    assert backlog.pop_cell(1) in list(cells)
    assert backlog.pop_cell(2) is None


def test_cells_in_this_process_leave_no_attribute_that_a_module_did_not_have() -> None:
    module = ModuleType("bare")
    output = CellOutput(lambda text: None)
    environment = InProcessEnvironment(output, [Replacement(module, "help", print)])
    originals = environment.enter()
    assert vars(module)["help"] is print
    environment.leave(originals, nested=False)
    output.end()
    assert "help" not in vars(module)


def test_a_cell_in_this_process_ends_although_the_listener_of_its_output_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)

    def fail(text: str) -> None:
        raise ValueError(text)

    output = CellOutput(fail)
    output.write("printed")
    drainer = start_thread("drainer", output.drain)
    wait_for(lambda: not drainer.is_alive())
    assert [str(failure.exc_value) for failure in failures] == ["printed"]
