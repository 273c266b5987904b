"""The engine `rlms` with a prepared model, for the benchmarks that compare it."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable
from typing import Any

Answerer = Callable[[int, list[dict[str, Any]]], tuple[str, float]]
"""Answer of a model, and its delay in seconds, by the turns it has had and the messages."""


def block(code: str) -> str:
    return f"```repl\n{code}\n```"


def search_by_rlms(answer: Answerer, text: str, question: str, **options: Any) -> str:
    """Run a search by the installed engine with a prepared model."""
    engine: Any = importlib.import_module("rlm.core.rlm")
    base: Any = importlib.import_module("rlm.clients.base_lm")
    types: Any = importlib.import_module("rlm.core.types")

    def reply_to(prompt: Any) -> tuple[str, float]:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        turns = sum(message["role"] == "assistant" for message in messages)
        return answer(turns, messages)

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
            return types.ModelUsageSummary(
                total_calls=1, total_input_tokens=1, total_output_tokens=1
            )

    engine.get_client = lambda backend, options: Client("prepared")
    search = engine.RLM(
        backend="openai", backend_kwargs={"model_name": "prepared"}, max_depth=2, **options
    )
    return str(search.completion(text, root_prompt=question).response)
