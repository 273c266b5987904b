"""Runs these tasks with other engines, if they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.benchmarks.quality.policies import LABEL, PART, SKILLS, read
from tests.benchmarks.quality.score import Score
from tests.benchmarks.quality.tasks import Task
from tests.benchmarks.rlms import block, search_by_rlms

POLICIES = {
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


def _code(task: Task, policy: str, end: str) -> str:
    skill = SKILLS[task.kind]
    texts = POLICIES[policy].replace("{pattern!r}", repr(skill.pattern))
    return f"{_CODE.format(texts=texts, label=LABEL, combine=skill.combine)}\n{end}"


def _by_rlms(task: Task, policy: str) -> Score:
    code = block(_code(task, policy, "answer['content'] = found\nanswer['ready'] = True"))
    calls = [0]

    def answer(turns: int, messages: list[dict[str, Any]]) -> tuple[str, float]:
        calls[0] += 1
        text = str(messages[-1]["content"])
        return read(SKILLS[task.kind], text) if text.startswith(LABEL) else code, 0.0

    return _scored(
        task, calls, lambda: search_by_rlms(answer, task.text, task.question, max_iterations=5)
    )


def _by_dspy(task: Task, policy: str) -> Score:
    dspy: Any = importlib.import_module("dspy")
    calls = [0]
    code = _code(task, policy, "SUBMIT(found)")
    turn = f"[[ ## reasoning ## ]]\nI look.\n\n[[ ## code ## ]]\n{code}\n\n[[ ## completed ## ]]"

    class Model(dspy.BaseLM):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("prepared")

        def __call__(self, prompt: Any = None, messages: Any = None, **options: Any) -> list[str]:
            calls[0] += 1
            text = str(prompt if messages is None else messages[-1]["content"])
            return [read(SKILLS[task.kind], text) if text.startswith(LABEL) else turn]

    def run() -> str:
        limits = {"max_iters": 5, "max_llm_calls": 10_000}
        with dspy.context(lm=Model()):
            search = dspy.RLM(
                "context, query -> answer", interpreter_factory=dspy.LocalInterpreter, **limits
            )
            return str(search(context=task.text, query=task.question).answer)

    return _scored(task, calls, run)


def _scored(task: Task, calls: list[int], run: Callable[[], str]) -> Score:
    began, state, exact = time.monotonic(), "answered", False
    try:
        exact = json.loads(run()) == task.answer
    except Exception:  # whatever an engine raises
        state = "failed"
    return Score(exact, state, calls[0], 0, 0.0, time.monotonic() - began, None, 0.0, 0.0)
