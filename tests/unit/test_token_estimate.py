"""The estimate of tokens, compared with what tokenizers have counted for recorded requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.llm.usage import estimated_tokens

REQUESTS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "token_counts.json").read_text("utf-8")
)


@pytest.mark.parametrize("tokenizer", ["o200k", "cl100k"])
@pytest.mark.parametrize("name", REQUESTS)
def test_estimate_is_within_a_tenth_of_the_known_count(name: str, tokenizer: str) -> None:
    counted = REQUESTS[name]["tokens"][tokenizer]
    assert abs(estimated_tokens(REQUESTS[name]["messages"]) / counted - 1) <= 0.1


def test_any_text_has_an_estimate() -> None:
    assert estimated_tokens([]) == 0
    assert estimated_tokens([""]) < 10
    for text in ("\x00\ud800" * 100, "٣" * 100, "-" * 100_000, " \n" * 50_000, "x" * 100_000):
        assert estimated_tokens([text]) > 0


def test_random_letters_have_many_tokens() -> None:
    """Tokenizers cut a sequence like this into pieces of two or three letters."""
    sequence = "gattacaggctt" * 500
    assert len(sequence) / 4 <= estimated_tokens([sequence]) <= len(sequence) / 2
