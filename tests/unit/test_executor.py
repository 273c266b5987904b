"""The parts around a cell: the limited stream, what is kept of long output, tracebacks."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.kernel import cells
from mahtab_tui.kernel.cells import Chunks, TerminalOutput
from mahtab_tui.kernel.values import OutputKind
from mahtab_tui.worker.capture import LIMIT, LimitedOutput, OutputLimitError, shorten
from mahtab_tui.worker.tracebacks import format_safely


@given(st.lists(st.text(max_size=12), max_size=12), st.integers(0, 40))
def test_limited_output_keeps_exactly_what_the_limit_allows(texts: list[str], limit: int) -> None:
    stream = LimitedOutput(limit=limit)
    raised = False
    for text in texts:
        try:
            assert stream.write(text) == len(text)
        except OutputLimitError:
            raised = True
            break
    assert stream.getvalue() == "".join(texts)[:limit]
    assert raised == (len("".join(texts)) > limit)


def test_output_limit_error_suggests_how_to_print_less() -> None:
    stream = LimitedOutput()
    print("x" * (LIMIT - 1), file=stream)
    with pytest.raises(OutputLimitError, match=r"10,000 characters.*slice.*peek.*grep"):
        stream.write("y")


def test_two_limited_streams_count_together() -> None:
    out, err = io.StringIO(), io.StringIO()
    stdout = LimitedOutput(out, 5)
    stderr = LimitedOutput(err, 5, sharing=stdout)
    stdout.write("abc")
    with pytest.raises(OutputLimitError):
        stderr.write("defg")
    assert (out.getvalue(), err.getvalue(), stdout.take("f")) == ("abc", "de", "")


def test_limited_stream_over_another_has_no_own_value() -> None:
    with pytest.raises(io.UnsupportedOperation):
        LimitedOutput(io.TextIOWrapper(io.BytesIO())).getvalue()


@given(st.text(), st.integers(1, 5))
def test_shortening_keeps_head_and_tail_and_counts_the_rest(text: str, keep: int) -> None:
    short = shorten(text, keep)
    if len(text) <= 2 * keep:
        assert short == text
    else:
        assert (
            short
            == f"{text[:keep]}\n… {len(text) - 2 * keep:,} characters left out …\n{text[-keep:]}"
        )


PLAIN = st.text(st.characters(exclude_characters="\r\b\x1b"), min_size=1, max_size=9)
PIECES = st.lists(st.tuples(st.sampled_from(["stdout", "value", "traceback"]), PLAIN))


@given(PIECES, st.integers(1, 20))
def test_output_is_reduced_to_head_and_tail_and_its_kinds_add_up(
    pieces: list[tuple[str, str]], keep: int
) -> None:
    whole = "".join(text for _, text in pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "KEEP", keep)
        output = TerminalOutput()
        for kind, text in pieces:
            output.add(cast(OutputKind, kind), text)
        text, kinds = output.text()
    assert text == shorten(whole, keep)
    assert sum(count for _, count in kinds) == len(text)
    assert all(first[0] != second[0] for first, second in pairwise(kinds))


@given(st.text(st.characters(codec="utf-8")), st.lists(st.integers(1, 3), min_size=1))
def test_chunks_join_to_the_text_however_its_bytes_are_split(text: str, sizes: list[int]) -> None:
    chunks_read: list[str] = []
    chunks = Chunks(chunks_read.append)
    data, turn = text.encode(), 0
    while data:
        size = sizes[turn % len(sizes)]
        chunks.feed(data[:size])
        data, turn = data[size:], turn + 1
    chunks.end()
    assert "".join(chunks_read) == text


def test_incomplete_character_at_the_end_is_made_visible() -> None:
    decoded_parts: list[str] = []
    chunks = Chunks(decoded_parts.append)
    chunks.feed(b"a\xe2\x82")
    chunks.end()
    assert "".join(decoded_parts) == "a\ufffd"


def test_an_exception_whose_text_raises_still_has_a_traceback() -> None:
    class Trap(Exception):
        def __str__(self) -> str:
            raise SystemExit

    assert "Trap" in format_safely(Trap())
