"""Keys in what goes over the bus, also where a stream brings them piece by piece."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from mahtab_tui.bus.logger import BusLogger
from mahtab_tui.bus.masking import MASK, MaskingFilter, Secrets, masked
from mahtab_tui.bus.records import Record, get_record
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.records import emit

KEY = "sk-proj-0123456789"


class RecordList(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(get_record(record))


def bus(*secrets: str) -> tuple[BusLogger, RecordList]:
    log, handler = BusLogger(), RecordList()
    log.addFilter(MaskingFilter(Secrets(lambda: secrets)))
    log.addHandler(handler)
    return log, handler


def streamed(pieces: Sequence[str], *secrets: str) -> list[str]:
    """Return the pieces of one stream after masking."""
    log, handler = bus(*secrets)
    for piece in pieces:
        emit(log, tags.USER_REPL_OUT_STREAM, piece, cell=1, kind="stdout")
    return [record.text for record in handler.records]


@pytest.mark.parametrize("cut", range(1, len(KEY)))
def test_key_split_into_two_pieces_is_not_shown(cut: int) -> None:
    shown = "".join(streamed([f"key: {KEY[:cut]}", f"{KEY[cut:]} end"], KEY))
    assert shown.endswith(f"{MASK} end")
    assert KEY[:4] not in shown
    assert KEY[-4:] not in shown


def test_key_streamed_letter_by_letter_is_not_shown() -> None:
    shown = "".join(streamed([*f"a {KEY} b {KEY}{KEY}"], KEY, "another-key-1"))
    assert shown.count(MASK) == 3
    assert KEY[:4] not in shown
    assert KEY[3:] not in shown


def test_ordinary_text_is_not_delayed() -> None:
    assert streamed(["hours", "k", "-prompt", "sk-proj-", "ect"], KEY) == [
        "hours",
        "k",
        "-prompt",
        "sk-proj-ect",
    ]
    assert streamed(["sk-proj-0123", "\n"], KEY) == ["sk-proj-0123\n"]


def test_key_starting_inside_a_false_start_is_masked_without_repeats() -> None:
    assert "".join(streamed(["xaa", "ab-key-1"], "aab-key-1")) == f"xaa{MASK}"


def test_streams_do_not_mix() -> None:
    log, handler = bus(KEY)
    for piece, cell in ((KEY[:6], 1), ("two", 2), (KEY[6:], 1)):
        emit(log, tags.USER_REPL_OUT_STREAM, piece, cell=cell, kind="stdout")
    assert [(record.text, record.attrs["cell"]) for record in handler.records] == [
        ("two", 2),
        (MASK, 1),
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (f"{KEY} and {KEY}", f"{MASK} and {MASK}"),
        ([KEY, {"name": [KEY]}], [MASK, {"name": [MASK]}]),
        ({"arguments": {KEY: 1}}, {"arguments": {MASK: 1}}),
        ({"n": 3, "none": None, "on": True}, {"n": 3, "none": None, "on": True}),
    ],
)
def test_key_is_masked_anywhere_in_a_value(value: object, shown: object) -> None:
    assert Secrets(lambda: [KEY]).mask_value(value) == shown


def test_too_short_key_is_treated_as_a_word() -> None:
    assert masked("none of them", "none") == "none of them"
    assert masked("12345678", "12345678") == MASK
    assert streamed(["hell", "o"], "hello") == ["hell", "o"]


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"]
)
def test_key_from_the_environment_is_masked_too(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, KEY)
    log, handler = bus(*load_settings().secrets())
    emit(log, tags.NOTICE, f"the key is {KEY}")
    assert [record.text for record in handler.records] == [f"the key is {MASK}"]


def test_two_keys_with_a_common_prefix_are_masked_completely() -> None:
    log, handler = bus(
        *load_settings(
            api_keys={"openai": SecretStr(KEY), "anthropic": SecretStr(f"{KEY}-longer")}
        ).secrets()
    )
    emit(log, tags.USER_REPL_OUT, f"{KEY}-longer, {KEY}", detail=f"{KEY}-longer")
    assert (handler.records[0].text, handler.records[0].attrs["detail"]) == (
        f"{MASK}, {MASK}",
        MASK,
    )


def test_whole_record_and_its_attributes_are_masked() -> None:
    log, handler = bus(KEY)
    emit(log, tags.USER_REPL_OUT, f"x{KEY}", cell=1, frames=[[KEY, 1, "f", 1]])
    assert handler.records[0].text == f"x{MASK}"
    assert handler.records[0].attrs["frames"] == [[MASK, 1, "f", 1]]


OVERLAPPING = "ab-ab-aab"
"""A key that goes on as it begins."""


@given(
    st.lists(
        st.sampled_from([OVERLAPPING, OVERLAPPING[:6], OVERLAPPING[3:], "ab-", "a", "-"]),
        max_size=6,
    ).map("".join),
    st.lists(st.integers(1, 6), min_size=1),
)
def test_any_stream_pieces_mask_the_key_and_lose_no_other_text(text: str, sizes: list[int]) -> None:
    secret, whole = OVERLAPPING, f"{text}."
    ends = list(itertools.accumulate(itertools.islice(itertools.cycle(sizes), len(whole))))
    shown = "".join(
        streamed([whole[start:end] for start, end in itertools.pairwise([0, *ends])], secret)
    )
    assert secret not in shown
    if secret not in whole:
        assert shown == whole
    else:
        assert MASK in shown
        assert shown.endswith(".")
