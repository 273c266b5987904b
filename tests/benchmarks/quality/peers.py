"""Runs these tasks with other engines, if they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.benchmarks.quality.policies import LABEL, PART, SKILLS, Skill, read
from tests.benchmarks.quality.score import Score
from tests.benchmarks.quality.tasks import Task

_TEXTS = {
    "map all": f"lines, texts = context.splitlines(keepends=True), ['']\nfor line in lines:\n    if len(texts[-1]) > {PART}: texts.append('')\n    texts[-1] += line",
    "grep then map": "hits = [line for line in context.splitlines() if re.search({pattern!r}, line)]\ntexts = ['\\n'.join(hits[n:n + 100]) for n in range(0, len(hits), 100)]",
}
_CODE = "import json, re\n{texts}\nvalues = [v for a in llm_query_batched([{label!r} + '\\n' + text for text in texts]) for v in json.loads(a)]\nfound = json.dumps({combine})"


def engines() -> Iterator[tuple[str, Callable[[Task, str], Score]]]:
    """The engines that are there, by name."""
    if importlib.util.find_spec("rlm") is not None:
        yield "rlms", _by_rlms
    if importlib.util.find_spec("dspy") is not None:
        yield "dspy", _by_dspy


def policies() -> tuple[str, ...]:
    return tuple(_TEXTS)


def _code(skill: Skill, policy: str, end: str) -> str:
    texts = _TEXTS[policy].replace("{pattern!r}", repr(skill.pattern))
    return f"{_CODE.format(texts=texts, label=LABEL, combine=skill.combine)}\n{end}"


def _by_rlms(task: Task, policy: str) -> Score:
    engine: Any = importlib.import_module("rlm.core.rlm")
    base: Any = importlib.import_module("rlm.clients.base_lm")
    types: Any = importlib.import_module("rlm.core.types")
    skill, calls = SKILLS[task.kind], [0]
    code = _code(skill, policy, "answer['content'] = found\nanswer['ready'] = True")
    block = f"```repl\n{code}\n```"

    class Client(base.BaseLM):  # type: ignore[misc]
        def completion(self, prompt: Any) -> str:
            calls[0] += 1
            text = prompt if isinstance(prompt, str) else str(prompt[-1]["content"])
            return read(skill, text) if text.startswith(LABEL) else block

        async def acompletion(self, prompt: Any) -> str:
            return self.completion(prompt)

        def get_usage_summary(self) -> Any:
            return types.UsageSummary(model_usage_summaries={})

        def get_last_usage(self) -> Any:
            return types.ModelUsageSummary(
                total_calls=1, total_input_tokens=1, total_output_tokens=1
            )

    engine.get_client = lambda backend, options: Client("prepared")
    search = engine.RLM(
        backend="openai", backend_kwargs={"model_name": "prepared"}, max_depth=2, max_iterations=5
    )
    return _scored(
        task, calls, lambda: search.completion(task.text, root_prompt=task.question).response
    )


def _by_dspy(task: Task, policy: str) -> Score:
    dspy: Any = importlib.import_module("dspy")
    skill, calls = SKILLS[task.kind], [0]

    class Model(dspy.BaseLM):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("prepared")

        def __call__(self, prompt: Any = None, messages: Any = None, **options: Any) -> list[str]:
            calls[0] += 1
            text = prompt if messages is None else str(messages[-1]["content"])
            if str(text).startswith(LABEL):
                return [read(skill, str(text))]
            return [
                f"[[ ## reasoning ## ]]\nI look.\n\n[[ ## code ## ]]\n{_code(skill, policy, 'SUBMIT(found)')}\n\n[[ ## completed ## ]]"
            ]

    def run() -> str:
        with dspy.context(lm=Model()):
            search = dspy.RLM(
                "context, query -> answer",
                interpreter_factory=dspy.LocalInterpreter,
                max_iters=5,
                max_llm_calls=10_000,
            )
            return str(search(context=task.text, query=task.question).answer)

    return _scored(task, calls, run)


def _scored(task: Task, calls: list[int], run: Callable[[], str]) -> Score:
    began = time.monotonic()
    try:
        answer = run()
        exact = json.loads(answer) == task.answer
    except Exception:  # whatever an engine raises
        return Score(False, "failed", calls[0], 0, 0.0, time.monotonic() - began, None, 0.0, 0.0)
    return Score(exact, "answered", calls[0], 0, 0.0, time.monotonic() - began, None, 0.0, 0.0)
