"""Runs these tasks with other installed engines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks import engines
from tests.benchmarks.quality.policies import LABEL, PART, SKILLS, read
from tests.benchmarks.quality.score import Score
from tests.benchmarks.quality.tasks import TextQuestion

POLICIES = {
    "map all": f"lines, texts = context.splitlines(keepends=True), ['']\nfor line in lines:\n    if len(texts[-1]) > {PART}: texts.append('')\n    texts[-1] += line",
    "grep then map": "hits = [line for line in context.splitlines() if re.search({pattern!r}, line)]\ntexts = ['\\n'.join(hits[n:n + 100]) for n in range(0, len(hits), 100)]",
}
_CODE = "import json, re\n{texts}\nvalues = [v for a in llm_query_batched([{label!r} + '\\n' + text for text in texts]) for v in json.loads(a)]\nfound = json.dumps({combine})"


def _code(task: TextQuestion, policy: str, end: str) -> str:
    skill = SKILLS[task.kind]
    texts = POLICIES[policy].replace("{pattern!r}", repr(skill.pattern))
    return f"{_CODE.format(texts=texts, label=LABEL, combine=skill.combine)}\n{end}"


def _by_rlms(task: TextQuestion, policy: str, answer: Callable[[str, str], str]) -> str:
    code = _code(task, policy, "answer['content'] = found\nanswer['ready'] = True")

    def reply(turns: int, messages: list[dict[str, Any]]) -> tuple[str, float]:
        return answer(str(messages[-1]["content"]), engines.rlms_block(code)), 0.0

    return engines.search_by_rlms(reply, task.text, task.question, max_iterations=5)


def _by_dspy(task: TextQuestion, policy: str, answer: Callable[[str, str], str]) -> str:
    turn = engines.dspy_block(_code(task, policy, "SUBMIT(found)"))
    limits = {"max_iters": 5, "max_llm_calls": 10_000}
    return engines.search_by_dspy(
        lambda prompt: answer(prompt, turn), task.text, task.question, **limits
    )


ENGINES = {
    name: search
    for name, module, search in (("rlms", "rlm", _by_rlms), ("dspy", "dspy", _by_dspy))
    if engines.installed(module)
}


def search_by_peer(name: str, task: TextQuestion, policy: str) -> Score:
    calls = 0

    def answer(prompt: str, turn: str) -> str:
        nonlocal calls
        calls += 1
        return read(SKILLS[task.kind], prompt) if prompt.startswith(LABEL) else turn

    began = time.monotonic()
    state = "answered"
    exact = False
    try:
        exact = json.loads(ENGINES[name](task, policy, answer)) == task.answer
    except Exception:  # whatever an engine raises
        state = "failed"
    return Score(exact, state, calls, seconds=time.monotonic() - began)
