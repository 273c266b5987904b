"""Runs these prepared searches with other engines, if they are installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.rlms import Answerer, block, search_by_rlms
from tests.benchmarks.table import Row, timed

_READY = "answer['content'] = str({})\nanswer['ready'] = True"


def rows(text: str, call: float) -> Iterator[Row]:
    """Time of each installed engine: a search of 5 turns, and sub-calls of so many seconds each."""
    if importlib.util.find_spec("rlm") is not None:
        yield from _rlms(text, call)
    if importlib.util.find_spec("dspy") is not None:
        yield _dspy(text)


def _rlms(text: str, call: float) -> Iterator[Row]:
    def five(turns: int, messages: Any) -> tuple[str, float]:
        code = f"x{turns} = len(context)\nprint(x{turns})" if turns < 4 else _READY.format(1)
        return block(code), 0.0

    def twenty(turns: int, messages: Any) -> tuple[str, float]:
        if "part" in str(messages) and not turns:
            return "read", call
        calls = "found = llm_query_batched(['part'] * 20)\n"
        return block(calls + _READY.format("len(found)")), 0.0

    def eight(turns: int, messages: Any) -> tuple[str, float]:
        if "part" in str(messages):
            return block(_READY.format(1)), call
        calls = "found = rlm_query_batched(['part'] * 8)\n"
        return block(calls + _READY.format("len(found)")), 0.0

    def took(answer: Answerer, times: int) -> list[float]:
        def run() -> None:
            found = search_by_rlms(answer, text, "what?", max_concurrent_subcalls=8)
            assert found.isdigit(), found

        return timed(run, times)

    ideal = call * 1_000
    yield Row("rlms: a search of 5 turns, no sandbox", took(five, 5))
    yield Row("rlms: 20 sub-calls of 50 ms", took(twenty, 5), "", ideal, "ideal")
    what = "rlms: 8 children with code, one call of 50 ms each"
    yield Row(what, took(eight, 3), "", ideal, "ideal")


def _dspy(text: str) -> Row:
    dspy: Any = importlib.import_module("dspy")
    codes = [*(f"x{turn} = len(context)\nprint(x{turn})" for turn in range(4)), "SUBMIT('1')"]

    def five() -> None:
        prepared = dspy.utils.DummyLM([{"reasoning": "I look.", "code": code} for code in codes])
        with dspy.context(lm=prepared):
            search = dspy.RLM("context, query -> answer", interpreter_factory=dspy.LocalInterpreter)
            found = search(context=text, query="what?")
        assert found.answer == "1", found

    return Row("dspy: a search of 5 turns, no sandbox", timed(five, 5))
