"""How a question ends: with an answer from the output, by a separate check, when code repeats
itself, or with the output itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from pydantic import Field

from mahtab_tui.agent import ReplAgent, create_initial_state, create_repl_graph, run_graph
from mahtab_tui.agent.state import ReflectionMode
from mahtab_tui.bus.records import Decision
from mahtab_tui.llm.replay import ScriptedChatModel
from tests import tags
from tests.agents import COMPLETE, INCOMPLETE, Desk, code, words

MAX_TURNS = 5
ERRORS = (
    "1 / 0",
    "nonesuch",
    "{}['a']",
    "int('x')",
    "[][1]",
    "len(3)",
    "raise OSError('disk')",
    "import nonesuch",
    "(",
    "assert False",
)


class Script(NamedTuple):
    """A question, and what a model does about it."""

    steps: Sequence[Sequence[str]]
    """The blocks of code of each answer, until the question is answered."""
    decision: Decision = Decision("run")
    """Decision of the person about each block."""


KINDS: dict[str, tuple[Callable[[int], Script], int, int]] = {
    "one cell": (lambda n: Script([[f"total = sum(range({n}))\ntotal"]]), 3, 2),
    "several blocks": (
        lambda n: Script([[f"part{i} = {n} * {i}" for i in range(2 + n % 3)]]),
        3,
        2,
    ),
    "two cells": (lambda n: Script([[f"first = {n}"], ["second = first + 1"]]), 5, 3),
    "more cells": (lambda n: Script([[f"step = {i} + {n}"] for i in range(4)]), 9, 5),
    "an error that is mended": (
        lambda n: Script([[f"before = {n}\n{ERRORS[n % 10]}"], [f"after = {n}"]]),
        5,
        3,
    ),
    "an error in the first of two blocks": (
        lambda n: Script([[ERRORS[n % 10], f"never = {n}"], [f"after = {n}"]]),
        5,
        3,
    ),
    "no end": (lambda n: Script([[f"again = {i} + {n}"] for i in range(9)]), 11, 6),
    "errors to the end": (lambda n: Script([[ERRORS[(n + i) % 10]] for i in range(9)]), 11, 6),
    "words only": (lambda n: Script([]), 1, 1),
    "skipped": (lambda n: Script([[f"unwanted = {n}"]], Decision("skip", reason=f"no, {n}")), 2, 2),
    "stopped": (lambda n: Script([[f"unwanted = {n}"]], Decision("stop")), 1, 1),
    "edited": (
        lambda n: Script([[f"value = {n}"]], Decision("run", code=f"value = {n} + 1")),
        3,
        2,
    ),
}
"""The script of each question of a kind, and how many calls it takes with a check of its own and
without."""


class Worker(ScriptedChatModel):
    """A model that follows a script, and knows when it is done."""

    script: Script
    given: int = 0
    calls: int = 0
    asked: list[str] = Field(default_factory=list)
    """The last message of each call."""

    @property
    def _llm_type(self) -> str:
        return "worker"

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        self.calls += 1
        last = str(messages[-1].text)
        self.asked.append(last)
        yield from self.stream_text(self._next_answer(last), None)

    def _next_answer(self, last: str) -> str:
        done = self.given >= len(self.script.steps)
        if '"is_complete"' in last:
            return str((COMPLETE if done else INCOMPLETE)["text"])
        if "Now answer in one or two sentences" in last or "skipped this code" in last or done:
            return "That is all."
        self.given += 1
        return str(code(*self.script.steps[self.given - 1])["text"])


class End(NamedTuple):
    """Result of a question."""

    namespace: dict[str, Any]
    answer: str
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
    return End(
        made,
        state["current_response"],
        cells,
        desk.doings()[-1],
        state["turn_count"],
        state["stopped"],
    ), worker


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.session.close()


@pytest.mark.parametrize("kind", KINDS)
def test_questions_of_every_kind_end_as_with_a_separate_check(desk: Desk, kind: str) -> None:
    make, checked_calls, calls = KINDS[kind]
    for number in range(len(ERRORS) if kind.startswith("an error") else 3):
        script = make(number)
        if script.decision != Decision("run"):
            desk._reactions.clear()
            desk.decide(*[script.decision] * 20)
        checked, checked_worker = end_of(desk, script, "always")
        answered, worker = end_of(desk, script, "never")
        assert answered == checked
        assert (checked_worker.calls, worker.calls) == (checked_calls, calls)


def test_model_gets_what_it_needs_after_each_block(desk: Desk) -> None:
    _, worker = end_of(desk, Script([["1 / 0"], ["print(2)"], ["made = [3]"]]), "never")
    _, failed, printed, silent = worker.asked
    assert failed.endswith("It failed. Write the corrected code block.")
    assert printed.endswith(", without code: what is it?")
    assert "made: list, 1 item" in silent
    assert silent.endswith(
        "It printed nothing. Tell the user in one or two sentences what was done, without code: what is it?"
    )
    desk.decide(Decision("skip"))
    _, skipped = end_of(desk, Script([["a = 1"]]), "never")
    assert skipped.asked[1] == "The person skipped this code (block 1)."


def test_separate_check_can_be_limited_to_errors(desk: Desk) -> None:
    end, worker = end_of(desk, Script([["a = 1"], ["1 / 0"], ["b = 2"]]), "on_error")
    assert (worker.calls, end.namespace) == (5, {"a": 1, "b": 2})


def test_code_sent_instead_of_a_final_answer_runs(desk: Desk) -> None:
    state = desk.run(code("a = 1"), code("b = a + 1"), words("b is 2."), reflection="never")
    assert (desk.namespace["b"], state["current_response"]) == (2, "b is 2.")
    assert "reflecting" not in desk.doings()


@pytest.mark.parametrize("again", ["n += 1\nprint(n)", "n += 1  # once more\n\nprint( n )"])
def test_repeated_code_does_not_run_again_and_the_question_ends(desk: Desk, again: str) -> None:
    desk.namespace["n"] = 0
    state = desk.run(
        code("n += 1\nprint(n)"),
        code(again),
        words("It is 1.", match="not run again"),
        reflection="never",
    )
    assert (desk.namespace["n"], state["current_response"]) == (1, "It is 1.")
    assert len(desk.of(tags.ASSISTANT_REPL_IN)) == 1
    assert [message.type for message in state["messages"]] == ["human", "ai", "human", "ai"], (
        "the repetition is not shown to the model"
    )


def test_repeated_failed_code_is_asked_for_differently_once(desk: Desk) -> None:
    failing = code("nonesuch()")
    state = desk.run(
        failing,
        failing,
        code("print(5)") | {"match": "The same code fails again"},
        words("It is 5."),
        reflection="never",
    )
    assert state["current_response"] == "It is 5."
    desk.records.clear()
    state = desk.run(
        failing,
        failing,
        failing,
        words("I could not.", match="All attempts failed"),
        reflection="never",
    )
    assert state["current_response"] == "I could not."
    assert len(desk.of(tags.ASSISTANT_REPL_IN)) == 1


def test_only_the_new_code_of_an_answer_runs(desk: Desk) -> None:
    desk.namespace["n"] = 0
    state = desk.run(code("n += 1"), code("n += 1", "m = n"), words("m is 1."), reflection="never")
    assert (desk.namespace["n"], desk.namespace["m"], state["current_response"]) == (
        1,
        1,
        "m is 1.",
    )


def test_short_output_can_be_the_answer_alone(desk: Desk) -> None:
    agent = ReplAgent(
        desk.host,
        desk.replay(code("print(6 * 7)"), code("print('long ' * 200)"), words("Long.")),
        output_answers=True,
    )
    assert agent.ask_sync("what is it?") == "42"
    assert agent.ask_sync("and now?") == "Long."


def test_output_is_the_answer_when_the_model_ends_without_words(desk: Desk) -> None:
    agent = ReplAgent(desk.host, desk.replay(code("print(6 * 7)") | {"repeat": True}))
    assert agent.ask_sync("what is it?") == "42"


class Figures(NamedTuple):
    answers: Sequence[dict[str, Any]]
    answer: str
    calls: int
    missing: list[str]


FIGURES = {
    "stated without code": Figures(
        [words("There are 57."), code("print(len(cars))"), words("There are 3.")],
        "There are 3.",
        3,
        [],
    ),
    "stated twice": Figures([words("There are 57."), words("It is 57.")], "It is 57.", 2, ["57"]),
    "beside the output": Figures(
        [code("print(3)"), words("There are 57."), words("There are 3.")], "There are 3.", 3, []
    ),
    "in the question": Figures(
        [words("Yes, 2024 was a leap year.")], "Yes, 2024 was a leap year.", 1, []
    ),
}


def uncomputed(desk: Desk) -> list[str]:
    """The figures of the last answer that nobody computed."""
    return [
        figure["text"]
        for figure in desk.of(tags.ASSISTANT_CHAT)[-1].attrs["figures"]
        if not figure["found"]
    ]


@pytest.mark.parametrize("kind", FIGURES)
def test_uncomputed_figure_is_questioned_once_and_then_marked(desk: Desk, kind: str) -> None:
    case = FIGURES[kind]
    desk.namespace["cars"] = ["a", "b", "c"]
    agent = ReplAgent(desk.host, desk.replay(*case.answers))
    assert agent.ask_sync("How many cars are there in 2024?") == case.answer
    assert len(desk.of(tags.USAGE)) == case.calls
    assert uncomputed(desk) == case.missing


def test_figure_in_a_dataless_answer_is_marked_but_not_questioned(desk: Desk) -> None:
    agent = ReplAgent(desk.host, desk.replay(words("Python 3 is from 2008, 18 years ago.")))
    agent.ask_sync("Since when is there Python 3?")
    assert len(desk.of(tags.USAGE)) == 1
    assert "2008" in uncomputed(desk)


def test_figures_before_code_are_marked_unless_the_code_contains_them(desk: Desk) -> None:
    desk.namespace["cars"] = ["a", "b", "c"]
    answer = words("There are 57, of which 2 come first:\n```python\nprint(cars[:2])\n```")
    ReplAgent(desk.host, desk.replay(answer, words("a and b."))).ask_sync("Which cars come first?")
    figures = desk.of(tags.ASSISTANT_CHAT)[0].attrs["figures"]
    assert [(figure["text"], figure["found"]) for figure in figures] == [("57", False), ("2", True)]
