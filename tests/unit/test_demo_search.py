"""The demo model in a search: a strategy by rules that finds what is there, and says what is not."""

from __future__ import annotations

import contextlib
import io
import random
import re
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from mahtab_tui.kernel.worker.sandbox.names import Final, make_names
from mahtab_tui.llm.demo import ChatDemo
from mahtab_tui.llm.demo_search import FEW, WHO, patterns_of, search_answer
from mahtab_tui.sandbox.base import TurnResult
from mahtab_tui.sandbox.text import Text
from mahtab_tui.search.answer_code import code_of
from mahtab_tui.search.limits import Limits
from mahtab_tui.search.node import BudgetLeft
from mahtab_tui.search.prompts import first_message, last_message, plain_message, plain_system, system_prompt, turn_message


class Run:
    """A search by the demo, whose code runs here: it is the demo's own, made of constants and of words as literals."""

    def __init__(self, text: str, *, depth: int = 3, calls: int | None = None) -> None:
        self.nodes = 0
        self.said: list[str] = []
        self._text = text
        self._depth = depth
        self._calls = calls

    def ask(self, query: str) -> str:
        return self._explore(query, self._text, 0)

    def _explore(self, query: str, text: str, depth: int) -> str:
        self.nodes += 1
        run = self

        class Host:
            final = ""

            def call(self, name: str, args: dict[str, Any]) -> Any:
                answers = []
                for part in args["parts"]:
                    piece = text[slice(*part["span"])] if "span" in part else part["text"]
                    if depth + 1 < run._depth and len(piece) > 20_000:
                        answers.append({"text": run._explore(args["query"], piece, depth + 1), "failed": False})
                    else:
                        run.nodes += 1
                        plain: list[BaseMessage] = [SystemMessage(plain_system()), HumanMessage(plain_message(args["query"], piece))]
                        answers.append({"text": search_answer(plain), "failed": False})
                return {"answers": answers}

            def tell(self, name: str, args: dict[str, Any]) -> None:
                if name == "final":
                    Host.final = args["text"]

        whole = Text.root(text)
        system = system_prompt(whole, Limits(max_depth=self._depth), depth=depth)
        messages: list[BaseMessage] = [SystemMessage(system), HumanMessage(first_message(query, whole, BudgetLeft(10, self._calls)))]
        names = make_names(text, "str", (), Host())
        for turn in range(10):
            said = search_answer(messages)
            assert said is not None
            self.said.append(said)
            code = code_of(said).code
            assert code is not None, said
            output, status = io.StringIO(), "ok"
            with contextlib.redirect_stdout(output):
                try:
                    exec(code, names)
                except Final:
                    return Host.final
                except Exception:
                    traceback.print_exc(file=output)
                    status = "error"
            result = TurnResult(status, output.getvalue(), len(output.getvalue()), 0.0)  # type: ignore[arg-type]
            messages += [AIMessage(said), HumanMessage(turn_message(result, BudgetLeft(9 - turn, self._calls)))]
        raise AssertionError("\n".join(self.said))


def log_lines(count: int, *, seed: int = 7, failing: int = 400) -> Iterator[str]:
    """A server's log: about one line in `failing` is a timeout of a request, others have errors of a disk."""
    dice = random.Random(seed)
    for number in range(count):
        head = f"2026-03-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z host=web-{number % 7}"
        kind = dice.randrange(failing)
        if kind == 0:
            yield f"{head} ERROR request id=r{number} failed: timeout after 30000 ms user=u{number % 50}"
        elif kind == 1:
            yield f"{head} ERROR disk /dev/sd{'abc'[number % 3]} is full"
        elif kind == 2:
            yield f"{head} WARN disk latency is high"
        elif kind == 3:
            yield f"{head} ERROR cannot reach 10.0.0.{number % 9}"
        else:
            yield f"{head} INFO request id=r{number} took {dice.randrange(900)} ms user=u{number % 50}"


SMALL_LOG = "\n".join(log_lines(3_000)) + "\n"
LARGE_LOG = "\n".join(log_lines(60_000, failing=100)) + "\n"


def timeouts(log: str) -> list[str]:
    return re.findall(r"id=(r\d+) failed: timeout", log)


def test_few_lines_that_match_are_the_answer() -> None:
    run = Run(SMALL_LOG)
    answer = run.ask("Which request ids failed with a timeout?")
    assert answer.startswith(f"{WHO}{len(timeouts(SMALL_LOG))} lines have 3 of the words")
    assert re.findall(r"id=(r\d+) failed: timeout", answer) == timeouts(SMALL_LOG)
    assert run.nodes == 1
    assert "peek(" in run.said[0]
    assert "grep(" in run.said[0]


def test_parts_of_a_text_with_too_many_matches_are_asked_about_and_their_lines_have_their_right_numbers() -> None:
    assert len(timeouts(LARGE_LOG)) > FEW
    run = Run(LARGE_LOG)
    answer = run.ask("Which requests failed with a timeout?")
    assert run.nodes >= 9
    found = re.findall(r"^line (\d+): (.*)$", answer, re.MULTILINE)
    assert len(found) > 20
    assert all(LARGE_LOG.split("\n")[int(number) - 1] == words for number, words in found)


@pytest.mark.parametrize("bounds", [{"depth": 1}, {"calls": 1}], ids=["at the greatest depth", "without calls left"])
def test_without_sub_calls_code_does_it_alone(bounds: dict[str, int]) -> None:
    run = Run(LARGE_LOG, **bounds)
    assert f"{len(timeouts(LARGE_LOG)):,} lines have" in run.ask("Which requests failed with a timeout?")
    assert run.nodes == 1


def test_a_query_without_words_gets_the_beginning() -> None:
    assert SMALL_LOG[:80] in Run(SMALL_LOG).ask("What is it?")


def test_what_is_not_there_is_said_so() -> None:
    assert "no line of the text has any of the words of the query (unicorn)" in Run(SMALL_LOG).ask("Where is the unicorn?")


@pytest.mark.parametrize(
    ("query", "text", "said"),
    [
        (
            "Which request ids failed?",
            "request id=a1 failed\nrequest id=b2 ok\nrequest id=c3 failed",
            "2 lines have 2 of the words request, ids, failed",
        ),
        ("How many lines mention disk?", "disk a\nb\ndisk c", "2 lines have 1 of the words mention, disk"),
        ("Who is Ada?", "Ada is a mathematician.\nBob is not.", "line 1: Ada is a mathematician."),
        ("Who is Eve?", "Ada is a mathematician.", "no line of the text"),
        (
            "Which ip addresses were refused?",
            "refused 10.0.0.1\naccepted 10.0.0.2",
            "1 line has 1 of the words addresses, refused:\nline 1: refused 10.0.0.1",
        ),
        ("hello?", "", "no line of the text"),
    ],
)
def test_a_plain_call_is_answered_from_its_text(query: str, text: str, said: str) -> None:
    messages: list[BaseMessage] = [SystemMessage(plain_system()), HumanMessage(plain_message(query, text))]
    answer = search_answer(messages)
    assert answer is not None
    assert answer.startswith(WHO)
    assert said in answer


def test_the_last_call_is_answered_in_words() -> None:
    messages: list[BaseMessage] = [
        SystemMessage(system_prompt(Text.root("x"), Limits())),
        HumanMessage(first_message("timeout?", Text.root("x"), BudgetLeft(1))),
        AIMessage("```python\n1\n```"),
        HumanMessage(last_message("The turn is used up.", "timeout?")),
    ]
    answer = search_answer(messages)
    assert answer is not None
    assert answer.startswith(f"{WHO}the search ended before its answer")


def test_after_a_failed_turn_lines_with_any_of_the_words_are_the_answer() -> None:
    messages: list[BaseMessage] = [
        SystemMessage(system_prompt(Text.root("x"), Limits())),
        HumanMessage(first_message("timeout?", Text.root("x"), BudgetLeft(9))),
        AIMessage("```python\n1\n```"),
        HumanMessage(turn_message(TurnResult("died", "", 0, 0.0), BudgetLeft(8))),
    ]
    code = code_of(search_answer(messages) or "").code
    assert code is not None
    assert "FINAL(" in code


def test_other_conversations_are_not_searches() -> None:
    assert search_answer([]) is None
    assert search_answer([HumanMessage("hello")]) is None
    assert search_answer([SystemMessage("You work with a person."), HumanMessage("hello")]) is None


def test_the_demo_model_speaks_in_a_search() -> None:
    messages = [SystemMessage(plain_system()), HumanMessage(plain_message("Who is Ada?", "Ada is a mathematician."))]
    assert ChatDemo().invoke(messages).text == f"{WHO}1 line has 1 of the words ada:\nline 1: Ada is a mathematician."


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=60), st.text(alphabet="ab1=: \n\"'\\", max_size=60))
def test_any_query_on_any_text_is_answered(query: str, text: str) -> None:
    assert isinstance(Run(text).ask(query), str)
    for pattern in patterns_of(query).values():
        re.compile(pattern)
