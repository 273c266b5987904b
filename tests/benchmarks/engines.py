"""Searches by other installed engines with prepared models, for the benchmarks that compare
them."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

Answerer = Callable[[int, list[dict[str, Any]]], tuple[str, float]]
"""Answer of a model, and its delay in seconds, by the turns it has had and the messages."""


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def rlms_block(code: str) -> str:
    return f"```repl\n{code}\n```"


def dspy_block(code: str) -> str:
    return f"[[ ## reasoning ## ]]\nI look.\n\n[[ ## code ## ]]\n{code}\n\n[[ ## completed ## ]]"


def search_by_rlms(answer: Answerer, text: str, question: str, **options: Any) -> str:
    engine: Any = importlib.import_module("rlm.core.rlm")
    base: Any = importlib.import_module("rlm.clients.base_lm")
    types: Any = importlib.import_module("rlm.core.types")

    def reply_to(prompt: Any) -> tuple[str, float]:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        return answer(sum(message["role"] == "assistant" for message in messages), messages)

    class Client(base.BaseLM):  # type: ignore[misc]
        def completion(self, prompt: Any) -> str:
            reply, seconds = reply_to(prompt)
            time.sleep(seconds)
            return reply

        async def acompletion(self, prompt: Any) -> str:
            reply, seconds = reply_to(prompt)
            await asyncio.sleep(seconds)
            return reply

        def get_usage_summary(self) -> Any:
            return types.UsageSummary(model_usage_summaries={})

        def get_last_usage(self) -> Any:
            return types.ModelUsageSummary(1, 1, 1)

    engine.get_client = lambda backend, options: Client("prepared")
    model = {"model_name": "prepared"}
    search = engine.RLM(backend="openai", backend_kwargs=model, max_depth=2, **options)
    return str(search.completion(text, root_prompt=question).response)


def search_by_dspy(answer: Callable[[str], str], text: str, question: str, **options: Any) -> str:
    dspy: Any = importlib.import_module("dspy")

    class Model(dspy.BaseLM):  # type: ignore[misc]
        def __call__(self, prompt: Any = None, messages: Any = None, **_: Any) -> list[str]:
            return [answer(str(prompt if messages is None else messages[-1]["content"]))]

    options["interpreter_factory"] = dspy.LocalInterpreter
    with dspy.context(lm=Model("prepared")):
        search = dspy.RLM("context, query -> answer", **options)
        return str(search(context=text, query=question).answer)
