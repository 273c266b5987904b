"""Times the prepared searches with other installed engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.benchmarks import engines
from tests.benchmarks.engines import Answerer, rlms_block
from tests.benchmarks.table import Row, timed

_READY = "answer['content'] = str({})\nanswer['ready'] = True"


def _code(turn: int, last_code: str) -> str:
    return f"x{turn} = len(context)\nprint(x{turn})" if turn < 4 else last_code


def rows(text: str, call: float) -> Iterator[Row]:
    """Time a search of 5 turns, and sub-calls of so many seconds each."""
    if engines.installed("rlm"):
        yield from _rlms(text, call)
    if engines.installed("dspy"):
        yield _dspy(text)


def _rlms(text: str, call: float) -> Iterator[Row]:
    def five(turns: int, messages: Any) -> tuple[str, float]:
        return rlms_block(_code(turns, _READY.format(1))), 0.0

    def twenty(turns: int, messages: Any) -> tuple[str, float]:
        if "part" in str(messages) and not turns:
            return "read", call
        calls = "found = llm_query_batched(['part'] * 20)\n"
        return rlms_block(calls + _READY.format("len(found)")), 0.0

    def eight(turns: int, messages: Any) -> tuple[str, float]:
        if "part" in str(messages):
            return rlms_block(_READY.format(1)), call
        calls = "found = rlm_query_batched(['part'] * 8)\n"
        return rlms_block(calls + _READY.format("len(found)")), 0.0

    def took(answer: Answerer, times: int) -> list[float]:
        def run() -> None:
            answer_text = engines.search_by_rlms(answer, text, "what?", max_concurrent_subcalls=8)
            assert answer_text.isdigit(), answer_text

        return timed(run, times)

    ideal = call * 1_000
    yield Row("rlms: a search of 5 turns, no sandbox", took(five, 5))
    yield Row("rlms: 20 sub-calls of 50 ms", took(twenty, 5), "", ideal, "ideal")
    label = "rlms: 8 children with code, one call of 50 ms each"
    yield Row(label, took(eight, 3), "", ideal, "ideal")


def _dspy(text: str) -> Row:
    def run() -> None:
        codes = (_code(turn, "SUBMIT('1')") for turn in range(5))
        blocks = map(engines.dspy_block, codes)
        answer_text = engines.search_by_dspy(lambda prompt: next(blocks), text, "what?")
        assert answer_text == "1", answer_text

    return Row("dspy: a search of 5 turns, no sandbox", timed(run, 5))
