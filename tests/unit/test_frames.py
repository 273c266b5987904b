"""Frames carry any JSON value, in pieces of any size, and refuse what is not one."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.sandbox.base import without_surrogates
from mahtab_tui.worker.frames import MAX_FRAME, FrameError, FrameReader, encode

# Any text, lone surrogates and NUL too.
TEXT = st.text(st.characters(), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXT, children, max_size=3),
    max_leaves=8,
)
FRAMES = st.lists(st.fixed_dictionaries({"op": TEXT, "value": VALUES}), max_size=4)


@given(FRAMES, st.lists(st.integers(1, 40), min_size=1))
def test_frames_round_trip_however_the_bytes_are_split(
    frames: list[dict[str, Any]], sizes: list[int]
) -> None:
    data = b"".join(encode(frame) for frame in frames)
    reader, out, turn = FrameReader(), [], 0
    while data:
        size = sizes[turn % len(sizes)]
        out += reader.feed(data[:size])
        data, turn = data[size:], turn + 1
    assert out == frames


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "\U0001f319", "\u202e"])
def test_text_invalid_in_utf8_or_c_round_trips(text: str) -> None:
    assert FrameReader().feed(encode({"op": "x", "text": text})) == [{"op": "x", "text": text}]


@pytest.mark.parametrize(
    "body",
    [b"not json", b"[]", b"{}", b'{"op":1}', b"\xff\xff", b"", b"[" * 100_000],
    ids=lambda body: repr(body[:8]),
)
def test_malformed_frame_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(struct.pack("!I", len(body)) + body)


def test_absurd_length_is_refused_before_buffering() -> None:
    with pytest.raises(FrameError, match="announced"):
        FrameReader().feed(struct.pack("!I", MAX_FRAME + 1))


def test_values_that_json_cannot_carry_are_type_errors() -> None:
    with pytest.raises(TypeError):
        encode({"op": "call", "args": {"value": object()}})


def test_values_that_are_nested_too_deeply_are_frame_errors() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(FrameError, match="deeply"):
        encode({"op": "call", "args": value})


def test_structure_outside_strings_has_its_own_limit() -> None:
    text = json.dumps({"op": "a", "text": '[{,"\\' * 1000, "é": "ü" * 500}).encode()
    reader = FrameReader(bare_limit=60)
    assert reader.feed(struct.pack("!I", len(text)) + text)[0]["text"] == '[{,"\\' * 1000
    lists = b'{"op":"a","l":[' + b"[]," * 30 + b"1]}"
    with pytest.raises(FrameError, match="outside"):
        reader.feed(struct.pack("!I", len(lists)) + lists)


@pytest.mark.parametrize(
    ("start", "piece", "end"),
    [
        (b'"', b'\\"', b""),
        (b"", b'""', b""),
        (b'"', b"\\\\", b""),
        (b"", b'"a', b""),
        (b'{"op":"', b'\\"', b'"}'),
    ],
    ids=["escaped quotes", "quotes", "backslashes", "strings", "a frame"],
)
def test_hostile_frame_is_checked_in_linear_time(start: bytes, piece: bytes, end: bytes) -> None:
    """A quadratic reader would be busy with each of these for hours, and hold every other thread
    up."""
    body = start + piece * 3_000_000 + end
    judging = multiprocessing.get_context("fork").Process(
        target=_judge, args=(struct.pack("!I", len(body)) + body,)
    )
    judging.start()
    judging.join(120)
    ended = judging.exitcode
    judging.kill()
    assert ended == 0


def _judge(data: bytes) -> None:
    with contextlib.suppress(FrameError):
        FrameReader(bare_limit=4 * 2**20).feed(data)


def test_strings_end_where_json_ends_them() -> None:
    text = json.dumps({"op": "a", "x": "\\", "y": '\\" and "', "z": "\\" * 7}).encode()
    bare = len(json.dumps({"op": "", "x": "", "y": "", "z": ""})) - len("opxyz")
    data = struct.pack("!I", len(text)) + text
    assert FrameReader(bare_limit=bare).feed(data)
    with pytest.raises(FrameError, match="outside"):
        FrameReader(bare_limit=bare - 1).feed(data)


def test_reader_may_accept_less_than_the_maximum() -> None:
    data = encode({"op": "a", "text": "x" * 100})
    with pytest.raises(FrameError):
        FrameReader(limit=100).feed(data)
    with pytest.raises(FrameError):
        encode({"op": "a", "text": "x" * 100}, limit=100)


def test_lone_surrogates_become_question_marks() -> None:
    assert without_surrogates({"op": "a", "x": ["\ud800é", {"\udc00": 1}]}) == {
        "op": "a",
        "x": ["?é", {"?": 1}],
    }
    frame = {"op": "a", "x": "😀"}
    assert without_surrogates(frame) is frame
