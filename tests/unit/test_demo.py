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

from mahtab_tui.kernel.worker.listing import described
from mahtab_tui.kernel.worker.text_tools import grep, peek
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.demo import ChatDemo, answer
from mahtab_tui.llm.prompts import CLOSING, COMPUTE, REFLECTION_PROMPT_TEMPLATE, user_turn

SALES = pd.DataFrame({"Region": ["n", "s", "n"], "price": [10.0, 20.0, 60.0]})
NAMESPACE: dict[str, Any] = {"df": SALES, "prices": [3, 4, 50], "ages": {"a": 1, "b": 3}, "log": "one ERROR\ntwo\nERROR three", "n": 42}
PARTS = pd.DataFrame({"id": [1, 2, 3], "price": [10.0, None, 60.0], "region": ["n", "s", "n"]})
ROWS = [{"id": "1", "price": "10", "region": "n"}, {"id": "2", "price": "", "region": "s"}, {"id": "3", "price": "60", "region": "n"}]
"""The same as a file of them is read without pandas."""


def question(text: str, activity: str = "", namespace: dict[str, Any] = NAMESPACE) -> list[BaseMessage]:
    rows = [described(name, value) for name, value in namespace.items()]
    listed = "\n".join(f"{row['name']}: {row['type']} = {row['summary']}" for row in rows)
    return [SystemMessage("s"), HumanMessage(user_turn(activity, {"all": listed}, text, COMPUTE))]


def run(text: str, activity: str = "", namespace: dict[str, Any] = NAMESPACE) -> str:
    """Ask, run the code that comes, and give what it printed."""
    said = answer(question(text, activity, namespace))
    assert "```python\n" in said, said
    code = said.split("```python\n")[1].split("```")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {**namespace, "grep": grep, "peek": peek})
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
        ("how many rows has df?", "df has 3 rows"),
        ("how many words are in log?", "log has 5 words"),
        ("how many lines has log", "log has 3 lines"),
        ("sort prices descending", "[50, 4, 3]"),
        ("sort df by price", "10.0"),
        ("first 2 of prices", "[3, 4]"),
        ("last row of df", "60.0"),
        ("describe df", "(3, 2)"),
        ("describe prices", "list 3"),
        ("what is n?", "42"),
        ("what is the mean of price where there is a df?", "mean of price is 30.0"),
    ],
)
def test_it_computes_on_real_variables(text: str, printed: str) -> None:
    assert printed in run(text)


@pytest.mark.parametrize("value", [PARTS, ROWS], ids=["pandas", "without pandas"])
@pytest.mark.parametrize(
    "name", ["orders", "sorting", "ranking", "count", "total", "first", "top", "search", "help_me", "maximum", "missing", "Orders"]
)
def test_a_variable_may_be_named_by_a_word_of_the_rules(name: str, value: object) -> None:
    namespace = {name: value, "price": 3}
    assert "10" in run(f"describe {name}", namespace=namespace)
    assert "has 3" in run(f"how many {name} are there?", namespace=namespace)
    assert "mean of price is 35.0" in run(f"what is the mean of price in {name}?", namespace=namespace)
    assert "1 of 3 rows have no price" in run(f"how many rows of {name} have no price?", namespace=namespace)
    assert "60" in run(f"sort {name} by price descending", namespace=namespace).splitlines()[0]
    assert "60" not in run(f"first 1 of {name}", namespace=namespace)


@pytest.mark.parametrize("value", [PARTS, ROWS], ids=["pandas", "without pandas"])
@pytest.mark.parametrize(
    "text",
    [
        "how many rows have no price?",
        "which orders have no price?",
        "orders without a price",
        "rows where the price is missing",
        "how many orders are missing a price",
    ],
)
def test_it_finds_what_is_missing(text: str, value: object) -> None:
    assert "1 of 3 rows have no price" in run(text, namespace={"orders": value})


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
    ],
)
def test_it_mends_simple_errors(code: str, error: str, printed: str) -> None:
    assert printed in run("fix the error", FAILURE.format(code=code, error=error))


def test_it_says_what_it_is_once() -> None:
    first = question("which variables are there?")
    assert answer(first).startswith("Demo model (rules, no AI)")
    assert not answer([*first, AIMessage("x"), *question("what is n?")[1:]]).startswith("Demo model")


@pytest.mark.parametrize(
    "text",
    [
        "how many words in log begin with o?",
        "count the negative items of prices",
        "which region of df pays most often?",
        "write a poem about df",
        "sort df",
    ],
)
def test_what_no_rule_fits_is_a_failure_and_not_passed_over(text: str) -> None:
    with pytest.raises(ModelError):
        answer(question(text))


@pytest.mark.parametrize("name", NAMESPACE)
def test_what_it_cannot_do_it_says_with_examples_that_work(name: str) -> None:
    namespace = {name: NAMESPACE[name]}
    with pytest.raises(ModelError, match="none of them applies") as failure:
        answer(question("write me a poem about the moon", namespace=namespace))
    assert "/model claude" not in str(failure.value)
    for example in [line[2:] for line in str(failure.value).splitlines() if line.startswith("- ")]:
        said = answer(
            question(example.rpartition(": ")[2], namespace={**namespace, "numbers": [3, 1, 2]} if "make numbers" in example else namespace)
        )
        if "```python\n" in said:
            run(example.rpartition(": ")[2], namespace={**namespace, "numbers": [3, 1, 2]} if "make numbers" in example else namespace)


def test_code_that_failed_or_found_no_column_is_no_answer() -> None:
    for status, printed in (("error", "ValueError: no"), ("ok", "There is no column weight. Columns: price")):
        ended = f'<assistant-repl-out cell="4" status="{status}">{printed}</assistant-repl-out>\n\n{CLOSING}'
        with pytest.raises(ModelError, match=printed):
            answer([*question("mean of weight"), AIMessage("x"), HumanMessage(ended)])
    with pytest.raises(ModelError, match="no rule"):
        answer(question("fix the error", FAILURE.format(code="x()", error="OSError: no")))


def test_it_judges_and_tells_results() -> None:
    judged = json.loads(answer([HumanMessage(REFLECTION_PROMPT_TEMPLATE.format(question="q", results='<assistant-repl-out status="error">'))]))
    assert judged["is_complete"] is False
    ended = f'<assistant-repl-out cell="4" status="ok">mean of prices is 19</assistant-repl-out>\n\n{CLOSING}'
    assert answer([*question("mean of prices"), AIMessage("x"), HumanMessage(ended)]) == "The result: mean of prices is 19."
    made = ended.replace("</assistant-repl-out>", "\n\nmean_price: float = 19.0</assistant-repl-out>")
    assert answer([*question("mean of prices"), AIMessage("x"), HumanMessage(made)]) == "The result: mean of prices is 19."


@given(st.lists(st.text(), max_size=4), st.booleans())
def test_it_answers_or_says_that_it_cannot(texts: list[str], tagged: bool) -> None:
    wrapped = [f'<variables>\n{text}\n</variables><user-repl-out status="error">{text}</user-repl-out>{text}' if tagged else text for text in texts]
    with contextlib.suppress(ModelError):
        assert answer([HumanMessage(text) for text in wrapped])


def test_it_streams_with_usage_and_can_be_stopped() -> None:
    llm = ChatDemo()
    words = []
    for chunk in llm.stream(question("what can you do?")):
        words.append(str(chunk.text))
        llm.stop()
    assert len("".join(words)) < len(answer(question("what can you do?")))
