"""Exceptions of a provider's code, as a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from mahtab_tui.llm.failures import explain_error

KEY = "sk-abcdefghijklmnop"


class Failed(Exception):
    """An error as the packages of providers raise it."""

    def __init__(self, body: Any, status: Any = None) -> None:
        super().__init__("It failed.")
        self.body = body
        self.status_code = status


@pytest.mark.parametrize(
    "code", ["²", "--5", pytest.param("1" * 5_000, id="long"), "٣", None, [], {"a": 1}]
)
def test_non_numeric_status_code_is_ignored(code: Any) -> None:
    assert str(explain_error(Failed({"error": {"code": code, "message": "Gone."}}, code))).endswith(
        ": Gone."
    )


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deeply_nested_body_does_not_crash(opening: str) -> None:
    assert (
        str(explain_error(Failed(opening * 200_000)))
        == "The model could not answer: Failed: It failed."
    )


@pytest.mark.parametrize("before", range(280, 300, 3))
def test_truncated_text_leaks_no_part_of_a_key(before: int) -> None:
    message = str(
        explain_error(
            Failed({"error": {"message": f"{'x' * before} {KEY} is wrong"}}, 401), secret=KEY
        )
    )
    assert KEY[:4] not in message
