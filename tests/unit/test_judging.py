"""A question that is judged by the answer after its code ends as one that a call of its own checks, with fewer calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from mahtab_tui.agent import create_initial_state, create_repl_graph, run_graph
from mahtab_tui.agent.routes import ReflectionMode
from mahtab_tui.bus import tags
from mahtab_tui.bus.decision import Decision
from mahtab_tui.llm.prompts import CLOSING, JUDGING
from mahtab_tui.llm.scripted import ScriptedChatModel
from tests.agents import COMPLETE, INCOMPLETE, Desk, code, words

MAX_TURNS = 5
ERRORS = ("1 / 0", "nonesuch", "{}['a']", "int('x')", "[][1]", "len(3)", "raise OSError('disk')", "import nonesuch", "(", "assert False")


class Script(NamedTuple):
    """A question, and what a model does about it."""

    steps: Sequence[Sequence[str]]
    """The blocks of code of each answer, until the question is answered."""
    decision: Decision = Decision("run")
    """What the person does with each block."""


KINDS: dict[str, tuple[Callable[[int], Script], int, int]] = {
    "one cell": (lambda n: Script([[f"total = sum(range({n}))\ntotal"]]), 3, 2),
    "several blocks": (lambda n: Script([[f"part{i} = {n} * {i}" for i in range(2 + n % 3)]]), 3, 2),
    "two cells": (lambda n: Script([[f"first = {n}"], ["second = first + 1"]]), 5, 3),
    "more cells": (lambda n: Script([[f"step = {i} + {n}"] for i in range(4)]), 9, 5),
    "an error that is mended": (lambda n: Script([[f"before = {n}\n{ERRORS[n % 10]}"], [f"after = {n}"]]), 5, 3),
    "an error in the first of two blocks": (lambda n: Script([[ERRORS[n % 10], f"never = {n}"], [f"after = {n}"]]), 5, 3),
    "no end": (lambda n: Script([[f"again = {i} + {n}"] for i in range(9)]), 11, 6),
    "errors to the end": (lambda n: Script([[ERRORS[(n + i) % 10]] for i in range(9)]), 11, 6),
    "words only": (lambda n: Script([]), 1, 1),
    "skipped": (lambda n: Script([[f"unwanted = {n}"]], Decision("skip", reason=f"no, {n}")), 2, 2),
    "stopped": (lambda n: Script([[f"unwanted = {n}"]], Decision("stop")), 1, 1),
    "edited": (lambda n: Script([[f"value = {n}"]], Decision("run", code=f"value = {n} + 1")), 3, 2),
}
"""The script of each question of a kind, and how many calls it takes with a check of its own and without."""


class Worker(ScriptedChatModel):
    """A model that follows a script, and knows when it is done."""

    script: Script
    given: int = 0
    calls: int = 0
    judged: int = 0

    @property
    def _llm_type(self) -> str:
        return "worker"

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        self.calls += 1
        last = str(messages[-1].text)
        self.judged += JUDGING in last
        yield from self.speak(self._said(last), None)

    def _said(self, last: str) -> str:
        done = self.given >= len(self.script.steps)
        if '"is_complete"' in last:
            return str((COMPLETE if done else INCOMPLETE)["text"])
        if CLOSING in last or "skipped this code" in last or done:
            return f"That is all, after {self.given} steps."
        self.given += 1
        return str(code(*self.script.steps[self.given - 1])["text"])


class End(NamedTuple):
    """What a question comes to."""

    namespace: dict[str, Any]
    said: str
    cells: list[str]
    doing: str
    turns: int
    stopped: bool


def end_of(desk: Desk, script: Script, reflection: ReflectionMode) -> tuple[End, Worker]:
    desk.records.clear()
    desk.namespace.clear()
    worker = Worker(script=script)
    graph = create_repl_graph(worker, desk.host, MAX_TURNS, reflection=reflection)
    state = run_graph(graph, create_initial_state("what is it?"), desk.host)
    cells = [record.text for record in desk.of(tags.ASSISTANT_REPL_IN)]
    made = {name: value for name, value in desk.namespace.items() if not name.startswith("_")}
    return End(made, state["current_response"], cells, desk.doings()[-1], state["turn_count"], state["stopped"]), worker


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.session.close()


@pytest.mark.parametrize("kind", KINDS)
def test_questions_of_every_kind_end_as_with_a_check_of_its_own(desk: Desk, kind: str) -> None:
    make, checked_calls, calls = KINDS[kind]
    for number in range(len(ERRORS) if kind.startswith("an error") else 3):
        script = make(number)
        if script.decision != Decision("run"):
            desk._reactions.clear()
            desk.decide(*[script.decision] * 20)
        checked, checked_worker = end_of(desk, script, "always")
        judged, worker = end_of(desk, script, "never")
        assert judged == checked
        assert (checked_worker.calls, worker.calls) == (checked_calls, calls)
        assert checked_worker.judged == 0


def test_the_model_is_told_to_judge_what_ran_and_not_what_was_skipped(desk: Desk) -> None:
    _, ran = end_of(desk, Script([["a = 1"], ["b = 2"]]), "never")
    assert ran.judged == 2
    desk.decide(Decision("skip"))
    _, skipped = end_of(desk, Script([["a = 1"]]), "never")
    assert skipped.judged == 0


def test_after_an_error_a_check_of_its_own_can_be_had_alone(desk: Desk) -> None:
    end, worker = end_of(desk, Script([["a = 1"], ["1 / 0"], ["b = 2"]]), "on_error")
    assert (worker.calls, worker.judged, end.namespace) == (5, 2, {"a": 1, "b": 2})


def test_code_of_an_answer_that_judges_runs(desk: Desk) -> None:
    state = desk.run(code("a = 1"), code("b = a + 1"), words("b is 2."), reflection="never")
    assert (desk.namespace["b"], state["current_response"]) == (2, "b is 2.")
    assert "reflecting" not in desk.doings()
