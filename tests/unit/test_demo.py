"""The demo model: rules, honest, on real variables."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from mahtab_tui.kernel.worker.text_tools import grep, peek
from mahtab_tui.kernel.worker.variables import described
from mahtab_tui.llm.demo import ChatDemo, answer
from mahtab_tui.llm.prompts import CLOSING, REFLECTION_PROMPT_TEMPLATE

SALES = pd.DataFrame({"Region": ["n", "s", "n"], "price": [10.0, 20.0, 60.0]})
NAMESPACE: dict[str, Any] = {"df": SALES, "prices": [3, 4, 50], "ages": {"a": 1, "b": 3}, "log": "one ERROR\ntwo\nERROR three", "n": 42}


def question(text: str, activity: str = "") -> list[BaseMessage]:
    rows = [described(name, value) for name, value in NAMESPACE.items()]
    listed = "\n".join(f"{row['name']}: {row['type']} = {row['summary']}" for row in rows)
    return [SystemMessage("s"), HumanMessage(f"<variables>\n{listed}\n</variables>\n\n{activity}{text}")]


def run(text: str, activity: str = "") -> str:
    """Ask, run the code that comes, and give what it printed."""
    said = answer(question(text, activity))
    assert "```python\n" in said, said
    code = said.split("```python\n")[1].split("```")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {**NAMESPACE, "grep": grep, "peek": peek})
    return printed.getvalue()


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("what is the mean of prices?", "mean of prices is 19"),
        ("median of ages", "median of ages is 2"),
        ("the largest of prices", "max of prices is 50"),
        ("average price in df", "mean of price is 30.0"),
        ("what is the total of the column PRICE in df", "sum of price is 90.0"),
        ("mean of weight in df", "There is no column weight. Columns: Region, price"),
        ("sum of price by region in df", "70.0"),
        ("rows of df where price > 15", "2 of 3 rows"),
        ("how many rows has df?", "df has 3 rows"),
        ("how many words are in log?", "log has 5 words"),
        ("how many lines has log", "log has 3 lines"),
        ("count the distinct values of prices", "3 distinct values"),
        ("sort prices descending", "[50, 4, 3]"),
        ("sort df by price", "10.0"),
        ("first 2 of prices", "[3, 4]"),
        ("last row of df", "60.0"),
        ("find ERROR in log", "3: ERROR three"),
        ("describe df", "(3, 2)"),
        ("describe prices", "list 3"),
        ("what is n?", "42"),
    ],
)
def test_it_computes_on_real_variables(text: str, printed: str) -> None:
    assert printed in run(text)


FAILURE = (
    '<recent-activity>\n<user-repl-in cell="3">{code}</user-repl-in>\n'
    '<user-repl-out cell="3" status="error">Traceback (most recent call last):\n  File "In [3]", line 1\n    {code}\n{error}</user-repl-out>\n'
    "</recent-activity>\n\n"
)


@pytest.mark.parametrize(
    ("code", "error", "printed"),
    [
        ("print(pricse)", "NameError: name 'pricse' is not defined", "[3, 4, 50]"),
        ("print(math.pi)", "NameError: name 'math' is not defined", "3.14"),
        ("print(1 / len([]))", "ZeroDivisionError: division by zero", "0"),
        ("print(prices[9])", "IndexError: list index out of range", "50"),
        ("print('n is ' + n)", 'TypeError: can only concatenate str (not "int") to str', "n is 42"),
        ("print(df['pric'].sum())", "KeyError: 'pric'", "price"),
    ],
)
def test_it_mends_simple_errors(code: str, error: str, printed: str) -> None:
    assert printed in run("fix the error", FAILURE.format(code=code, error=error))


def test_it_says_what_it_is_once() -> None:
    first = question("which variables are there?")
    assert answer(first).startswith("Demo model (rules, no AI)")
    assert not answer([*first, AIMessage("x"), *question("what is n?")[1:]]).startswith("Demo model")


@pytest.mark.parametrize("text", ["how many rows of df have no price?", "how many words in log begin with o?", "count the negative items of prices"])
def test_a_condition_that_it_does_not_know_is_not_passed_over(text: str) -> None:
    assert "I count" not in answer(question(text))


def test_what_it_cannot_do_it_says_with_examples_that_work() -> None:
    said = answer(question("write me a poem about the moon"))
    assert "no answer" in said
    for example in [line[2:] for line in said.splitlines() if line.startswith("- ")]:
        assert run(example)


def test_it_judges_and_tells_results() -> None:
    judged = json.loads(answer([HumanMessage(REFLECTION_PROMPT_TEMPLATE.format(question="q", results='<assistant-repl-out status="error">'))]))
    assert judged["is_complete"] is False
    ended = f'<assistant-repl-out cell="4" status="ok">mean of prices is 19</assistant-repl-out>\n\n{CLOSING}'
    assert answer([*question("mean of prices"), AIMessage("x"), HumanMessage(ended)]) == "The result: mean of prices is 19."


@given(st.lists(st.text(), max_size=4), st.booleans())
def test_it_never_fails(texts: list[str], tagged: bool) -> None:
    wrapped = [f'<variables>\n{text}\n</variables><user-repl-out status="error">{text}</user-repl-out>{text}' if tagged else text for text in texts]
    assert answer([HumanMessage(text) for text in wrapped])


def test_it_streams_with_usage_and_can_be_stopped() -> None:
    llm = ChatDemo()
    words = []
    for chunk in llm.stream(question("what can you do?")):
        words.append(str(chunk.text))
        llm.stop()
    assert len("".join(words)) < len(answer(question("what can you do?")))
