"""A key of the configuration in what happens: nobody is shown it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import SecretStr

from mahtab_tui.bus.masking import MASK, Masking, masked
from mahtab_tui.settings import load_settings

KEY = "sk-abcdefgh"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (f"{KEY} and {KEY}", f"{MASK} and {MASK}"),
        ([KEY, {"name": [KEY]}], [MASK, {"name": [MASK]}]),
        ({KEY: 1}, {MASK: 1}),
        ({"n": 3, "none": None, "on": True}, {"n": 3, "none": None, "on": True}),
    ],
)
def test_a_key_is_found_wherever_it_stands_in_a_value(value: Any, shown: Any) -> None:
    assert masked(value, KEY) == shown


def test_what_is_too_short_for_a_key_is_a_word() -> None:
    assert masked("none of them", "none") == "none of them"
    assert masked("12345678", "12345678") == MASK


def test_of_two_keys_that_begin_alike_nothing_is_left() -> None:
    settings = load_settings(api_keys={"openai": SecretStr(KEY), "anthropic": SecretStr(f"{KEY}-longer")})
    record = logging.makeLogRecord({"msg": f"{KEY}-longer, {KEY}", "attrs": {"code": f"{KEY}-longer"}})
    assert Masking(settings.secrets).filter(record)
    assert (record.msg, record.__dict__["attrs"]) == (f"{MASK}, {MASK}", {"code": MASK})
