"""Runs these prepared searches with other engines, if they are installed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.benchmarks.table import Row, median, timed

Answerer = Callable[[int, str], tuple[str, float]]
"""Answer of a model, and its delay in seconds, by the turns it has had and the last message."""


def rows(text: str, call: float) -> Iterator[Row]:
    """Time of each installed engine: a search of 5 turns, and sub-calls of so many seconds each."""
    if importlib.util.find_spec("rlm") is not None:
        yield from _rlms(text, call)
    if importlib.util.find_spec("dspy") is not None:
        yield from _dspy(text, call)
    if importlib.util.find_spec("rlmflow") is not None:
        yield from _rlmflow(text, call)


def _rlms(text: str, call: float) -> Iterator[Row]:
    def five(turns: int, message: str) -> tuple[str, float]:
        return _block(
            f"x{turns} = len(context)\nprint(x{turns})" if turns < 4 else _READY.format(1)
        ), 0.0

    def twenty(turns: int, message: str) -> tuple[str, float]:
        if "part" in message and not turns:
            return "read", call
        return _block(
            "found = llm_query_batched(['part'] * 20)\n" + _READY.format("len(found)")
        ), 0.0

    def eight(turns: int, message: str) -> tuple[str, float]:
        if "part" in message:
            return _block(_READY.format(1)), call
        return _block(
            "found = rlm_query_batched(['part'] * 8)\n" + _READY.format("len(found)")
        ), 0.0

    yield Row(
        "rlms: a search of 5 turns, no sandbox", median(timed(_by_rlms(five, text), 5)), "ms", ""
    )
    yield Row(
        "rlms: 20 sub-calls of 50 ms",
        median(timed(_by_rlms(twenty, text), 5)),
        "ms",
        "",
        call * 1_000,
        "ideal",
    )
    yield Row(
        "rlms: 8 children with code, one call of 50 ms each",
        median(timed(_by_rlms(eight, text), 3)),
        "ms",
        "",
        call * 1_000,
        "ideal",
    )


_READY = "answer['content'] = str({})\nanswer['ready'] = True"


def _block(code: str) -> str:
    return f"```repl\n{code}\n```"


def _by_rlms(answer: Answerer, text: str) -> Callable[[], object]:
    engine: Any = importlib.import_module("rlm.core.rlm")
    base: Any = importlib.import_module("rlm.clients.base_lm")
    types: Any = importlib.import_module("rlm.core.types")

    class Client(base.BaseLM):  # type: ignore[misc]
        def completion(self, prompt: Any) -> str:
            reply, seconds = _answer_text(answer, prompt)
            time.sleep(seconds)
            return reply

        async def acompletion(self, prompt: Any) -> str:
            reply, seconds = _answer_text(answer, prompt)
            await asyncio.sleep(seconds)
            return reply

        def get_usage_summary(self) -> Any:
            return types.UsageSummary(model_usage_summaries={})

        def get_last_usage(self) -> Any:
            return types.ModelUsageSummary(
                total_calls=1, total_input_tokens=1, total_output_tokens=1
            )

    engine.get_client = lambda backend, options: Client("prepared")

    def run() -> None:
        search = engine.RLM(
            backend="openai",
            backend_kwargs={"model_name": "prepared"},
            max_depth=2,
            max_concurrent_subcalls=8,
        )
        found = search.completion(text, root_prompt="what?")
        assert found.response.isdigit(), found

    return run


def _answer_text(answer: Answerer, prompt: Any) -> tuple[str, float]:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return answer(sum(1 for message in messages if message["role"] == "assistant"), str(messages))


def _dspy(text: str, call: float) -> Iterator[Row]:
    dspy: Any = importlib.import_module("dspy")
    codes = [*(f"x{turn} = len(context)\nprint(x{turn})" for turn in range(4)), "SUBMIT('1')"]

    def five() -> None:
        prepared = dspy.utils.DummyLM([{"reasoning": "I look.", "code": code} for code in codes])
        with dspy.context(lm=prepared):
            found = dspy.RLM("context, query -> answer", interpreter_factory=dspy.LocalInterpreter)(
                context=text, query="what?"
            )
        assert found.answer == "1", found

    yield Row("dspy: a search of 5 turns, no sandbox", median(timed(five, 5)), "ms", "")


def _rlmflow(text: str, call: float) -> Iterator[Row]:
    def five(turns: int, message: str) -> tuple[str, float]:
        return _block(
            f"x{turns} = CONTEXT.line_count()\nprint(x{turns})" if turns < 4 else "done('1')"
        ), 0.0

    def twenty(turns: int, message: str) -> tuple[str, float]:
        if "part" in message and not turns and "what?" not in message:
            return "read", call
        return _block("found = llm_query_batched(['part'] * 20)\ndone(len(found))"), 0.0

    def eight(turns: int, message: str) -> tuple[str, float]:
        if "what?" not in message:
            return _block("done(1)"), call
        children = "[rlm_delegate(name=f'n{n}', query='part', context='part') for n in range(8)]"
        return _block(f"found = await rlm_wait(*{children})\ndone(len(found))"), 0.0

    yield Row(
        "rlmflow: a search of 5 turns, no sandbox",
        median(timed(_by_rlmflow(five, text), 5)),
        "ms",
        "",
    )
    yield Row(
        "rlmflow: 20 sub-calls of 50 ms",
        median(timed(_by_rlmflow(twenty, text), 5)),
        "ms",
        "",
        call * 1_000,
        "ideal",
    )
    yield Row(
        "rlmflow: 8 children with code, one call of 50 ms each",
        median(timed(_by_rlmflow(eight, text), 3)),
        "ms",
        "",
        call * 1_000,
        "ideal",
    )


def _by_rlmflow(answer: Answerer, text: str) -> Callable[[], object]:
    flow: Any = importlib.import_module("rlmflow")
    local: Any = importlib.import_module("rlmflow.runtime.local")

    class Client(flow.LLMClient):  # type: ignore[misc]
        def chat(self, messages: Any, *args: Any, **options: Any) -> str:
            reply, seconds = _answer_text(answer, messages)
            time.sleep(seconds)
            return reply

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            runtime = local.LocalRuntime(workspace=folder)
            config = flow.RLMConfig(max_depth=2, max_concurrency=20, async_children=True)
            found = flow.RLMFlow(Client(), runtime=runtime, config=config).run(
                "what?", context=text
            )
        assert str(found).isdigit(), found

    return run
