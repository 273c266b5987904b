"""Prints how many answers are exact, and what they cost."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage

from mahtab_tui.llm.providers import get_llm
from mahtab_tui.search.api import rlm
from mahtab_tui.settings.model import load_settings
from mahtab_tui.worker.rlm.search import SearchFailed
from tests.benchmarks.quality.forms import show_forms
from tests.benchmarks.quality.peers import ENGINES, search_by_peer
from tests.benchmarks.quality.peers import POLICIES as PEER_POLICIES
from tests.benchmarks.quality.policies import LABEL, POLICIES, SKILLS, read
from tests.benchmarks.quality.score import HEADING, Score, mean, row, score
from tests.benchmarks.quality.tasks import KINDS, TextQuestion, make
from tests.recursion_scripts import ScriptedModel, query_of

CALLS = 100
"""Calls that a search may make."""
SIZES = (0.1, 1.0, 10.0, 100.0)

_LINE = "{:<12}{:<16}{:>6}{:>8}{:>9}{:>8}{:>6}{:>8}{:>11}{:>8}{:>7}  {}".format


def searched(task: TextQuestion, policy: str) -> Score:
    """Run a task by our own engine."""
    skill = SKILLS[task.kind]
    codes = POLICIES[policy](skill)

    def reply(messages: Sequence[BaseMessage]) -> str:
        if query_of(messages) == LABEL:
            return read(skill, str(messages[-1].content))
        turn = sum(message.type == "ai" for message in messages)
        return f"```python\n{codes[min(turn, len(codes) - 1)]}\n```"

    model = ScriptedModel(reply=reply)

    def search(question: str, text: str, returns: object) -> object:
        limits: dict[str, Any] = {"max_calls": CALLS, "yes": True, "turn_seconds": 2.0}
        return rlm(question, text, returns=returns, model=model, **limits)

    return score(task, search, (SearchFailed,))


def by_model(name: str, sizes: Sequence[float]) -> None:
    """Print a line for each task, searched by a real model."""
    model = get_llm(name, **load_settings().model_access())
    print(HEADING)
    for size in sizes:
        for kind in KINDS:
            task = make(kind, size)
            done = score(task, partial(rlm, model=model, yes=True), (SearchFailed,))
            print(row(task, size, done), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--forms", action="store_true")
    parser.add_argument("sizes", nargs="*", type=float, metavar="MEGABYTES")
    arguments = parser.parse_args()
    if arguments.forms:
        show_forms()
    elif arguments.model:
        by_model(arguments.model, arguments.sizes or SIZES[:2])
    else:
        by_prepared_models(arguments.sizes or SIZES)


def by_prepared_models(sizes: Sequence[float]) -> None:
    heading = "engine policy MB exact partial calls over s precision recall lines".split()
    print(_LINE(*heading, "not exact"))
    for size in sizes:
        tasks = [make(kind, size) for kind in KINDS]
        for policy in POLICIES:
            suited = [task for task in tasks if policy != "join by code" or task.kind == "pairs"]
            _show("mahtab-tui", policy, size, [(task, searched(task, policy)) for task in suited])
        for name in ENGINES:
            for policy in PEER_POLICIES:
                done = [(task, search_by_peer(name, task, policy)) for task in tasks]
                _show(name, policy, size, done)


def _show(engine: str, policy: str, size: float, done: list[tuple[TextQuestion, Score]]) -> None:
    scores = [task_score for _, task_score in done]
    over = max(0, max(task_score.calls for task_score in scores) - CALLS)
    missed = ", ".join(
        f"{task.kind} ({task_score.state})" for task, task_score in done if not task_score.exact
    )
    precision = [task_score.precision for task_score in scores if task_score.precision is not None]
    ours = engine == "mahtab-tui"
    cells = (
        f"{size:g}",
        f"{sum(task_score.exact for task_score in scores):>5}/{len(scores)}",
        sum(task_score.state == "partial" for task_score in scores),
        f"{sum(task_score.calls for task_score in scores):,}",
        over if ours else "-",
        f"{sum(task_score.seconds for task_score in scores):.1f}",
        mean(precision),
        mean([task_score.recall for task_score in scores] if ours else []),
        mean([task_score.lines for task_score in scores] if ours else []),
    )
    print(_LINE(engine, policy, *cells, missed), flush=True)


if __name__ == "__main__":
    main()
