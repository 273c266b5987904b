"""Models without a service: the demo model, and files of prepared answers."""

from __future__ import annotations

import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

import mahtab_tui
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.demo import WHO, ChatDemo, answer
from mahtab_tui.llm.prompts import CLOSING, COMPUTE, REFLECTION_PROMPT_TEMPLATE, user_turn
from mahtab_tui.llm.replay_file import read_replay
from mahtab_tui.search.prompts import plain_message
from mahtab_tui.search.system_prompts import plain_system
from mahtab_tui.worker.describing.description import describe_value

# The demo model.

ORDERS = pd.DataFrame({"id": [1, 2, 3], "Price": [10.0, None, 60.0], "region": ["n", "s", "n"]})
ROWS = [
    {"id": "1", "Price": "10", "region": "n"},
    {"id": "2", "Price": "", "region": "s"},
    {"id": "3", "Price": "60", "region": "n"},
]
OTHERS: dict[str, Any] = {
    "other": pd.DataFrame({"a": [1], "b": [2]}),
    "numbers": [3, 4, 50],
    "ages": {"a": 1, "b": 3},
    "log": "one ERROR\ntwo\nERROR three",
    "n": 42,
}
LOG = "\n".join(
    f"10:{n // 60:02}:{n % 60:02} request {n} {'timed out after 30 s' if n % 397 == 1 else 'took 30 ms'}"
    for n in range(3_000)
)

REQUESTS = "request id=a1 failed\nrequest id=b2 ok\nrequest id=c3 failed"
ADA = "Ada is a mathematician."

EXTREME = "line 2: a number is too long, or the JSON is nested too deeply."


def question(text: str, namespace: dict[str, Any]) -> list[BaseMessage]:
    described = {name: describe_value(name, value, 1_000) for name, value in namespace.items()}
    return [SystemMessage("s"), HumanMessage(user_turn("", described, text, COMPUTE))]


def run(text: str, namespace: dict[str, Any]) -> str:
    reply = answer(question(text, namespace))
    assert "```python\n" in reply, reply
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(reply.split("```python\n")[1].split("```")[0], dict(namespace))
    return printed.getvalue()


@pytest.mark.parametrize("value", [ORDERS, ROWS], ids=["pandas", "without pandas"])
@pytest.mark.parametrize("other_variables", [{}, OTHERS], ids=["alone", "among others"])
@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("how many rows have no price?", "1 of 3 rows have no Price"),
        ("which rows of data are missing a price?", "1 of 3 rows have no Price"),
        ("data without price", "1 of 3 rows have no Price"),
        ("how many rows has data?", "data has 3 "),
        ("first 1 of data", "10"),
        ("the last 2 rows of data", "60"),
        ("describe data", "region"),
        ("what is in data?", "region"),
    ],
)
def test_demo_answers_about_the_table(
    value: object, other_variables: dict[str, Any], text: str, printed: str
) -> None:
    assert printed in run(text, {**other_variables, "data": value})


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("how many rows has other?", "other has 1 rows"),
        ("how many words are in log?", "log has 5 words"),
        ("last 2 lines of log", "['two', 'ERROR three']"),
        ("first 2 of numbers", "[3, 4]"),
        ("describe numbers", "[3, 4, 50]"),
        ("what is n?", "42"),
    ],
)
def test_demo_answers_about_any_variable(text: str, printed: str) -> None:
    assert printed in run(text, {**OTHERS, "data": ORDERS})


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("plot data", [[1, 2, 3], [10, 60]]),
        ("draw the price of data", [[10, 60]]),
        ("plot numbers", [[3, 4, 50]]),
    ],
)
def test_demo_plots_a_table_a_column_and_a_list(
    text: str, drawn: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    run(text, {**OTHERS, "data": ORDERS})
    (axes,) = pyplot.gcf().axes
    assert [[y for y in line.get_ydata() if y == y] for line in axes.lines] == drawn
    pyplot.close("all")


@pytest.mark.parametrize(
    "text",
    [
        "how many words in log begin with o?",
        "count the negative items of numbers",
        "which region of data pays most often?",
        "what is the mean of price in data?",
        "write a poem about data",
        "sort data",
    ],
)
def test_uncovered_question_is_a_failure_with_working_examples(text: str) -> None:
    namespace = {**OTHERS, "data": ORDERS}
    with pytest.raises(ModelError, match="has no rule for this") as failure:
        answer(question(text, namespace))
    examples = [line[2:] for line in str(failure.value).splitlines() if line.startswith("- ")]
    assert len(examples) == 3
    assert all(run(example, namespace) for example in examples[1:])


def test_demo_names_variables() -> None:
    reply = answer(question("which variables are there?", OTHERS))
    assert reply.startswith(WHO)
    assert "- `log`: str" in reply
    later = answer([HumanMessage("x"), AIMessage("x"), *question("what is n?", OTHERS)])
    assert not later.startswith(WHO)


def test_demo_reports_printed_output() -> None:
    def report(status: str, printed: str) -> str:
        record = f'<assistant-repl-out cell="4" status="{status}">{printed}</assistant-repl-out>'
        conversation = [*question("what is n?", OTHERS), AIMessage("x")]
        return answer([*conversation, HumanMessage(f"{record}\n\n{CLOSING}")])

    assert report("ok", "42\n\nm: float = 19.0") == "The result: 42."
    assert "```text\n1\n2\n```" in report("ok", "1\n2")
    with pytest.raises(ModelError, match="KeyError: 'weight'"):
        report("error", "Traceback\nKeyError: 'weight'")


def test_demo_names_an_error() -> None:
    error = "ZeroDivisionError: division by zero"
    record = (
        f'<user-repl-out status="error">Traceback\n  File &lt;In 3&gt;\n{error}</user-repl-out>'
    )
    request = HumanMessage(f"{record}\n\nExplain the error of cell 3.")
    assert f"The cell raised {error}." in answer([request])


def test_demo_judges_printed_output() -> None:
    results = '<assistant-repl-out status="error">'
    prompt = REFLECTION_PROMPT_TEMPLATE.format(question="q", results=results)
    assert json.loads(answer([HumanMessage(prompt)]))["is_complete"] is False


@given(st.lists(st.text(), max_size=4), st.booleans())
def test_any_text_gets_an_answer_or_a_model_error(texts: list[str], tagged: bool) -> None:
    tags = '<variables>\n{0}\n</variables><user-repl-out status="error">{0}</user-repl-out>{0}'
    messages = [HumanMessage(tags.format(text) if tagged else text) for text in texts]
    with contextlib.suppress(ModelError):
        assert answer(messages)


def test_demo_streams_with_usage_and_can_be_stopped() -> None:
    llm = ChatDemo()
    conversation = question("which variables are there?", OTHERS)
    words = []
    for chunk in llm.stream(conversation):
        words.append(str(chunk.text))
        llm.stop()
    assert len("".join(words)) < len(answer(conversation))


@pytest.mark.parametrize(
    ("query", "text", "reply"),
    [
        (
            "Which request ids failed?",
            REQUESTS,
            "lines with 2 of the words request, ids, failed: 2",
        ),
        ("Who is Ada?", f"{ADA}\nBob is not.", f"lines with 1 of the words ada: 1\nline 1: {ADA}"),
        ("Who is Eve?", ADA, "no line of the text"),
        ("hello?", "", "no line of the text"),
    ],
)
def test_a_short_text_is_searched_by_its_lines(query: str, text: str, reply: str) -> None:
    messages = [SystemMessage(plain_system()), HumanMessage(plain_message(query, text))]
    assert ChatDemo().invoke(messages).text.startswith(f"{WHO}{reply}")


@pytest.mark.parametrize(
    ("query", "reply"),
    [
        (
            "Which requests timed out?",
            "lines with 2 of the words requests, timed: 8\nline 2: 10:00:01 request 1 timed out",
        ),
        ("Where is the unicorn?", "no line of the text has any of the words"),
        ("What is it?", "no line of the text has any of the words of the query."),
    ],
)
def test_a_long_text_is_searched_by_code(query: str, reply: str) -> None:
    assert mahtab_tui.rlm(query, LOG, model="demo").startswith(f"{WHO}{reply}")


@pytest.mark.parametrize(
    "text", ["half \ud83d", "a\u2028b\u2029c\x85d", "\x00\x1b[2J", "שלום 漢字 🌙"]
)
@pytest.mark.parametrize("escaped", [True, False])
def test_any_text_is_an_answer(tmp_path: Path, text: str, escaped: bool) -> None:
    path = tmp_path / "replay.jsonl"
    escaped = escaped or "\ud83d" in text
    line = json.dumps({"text": text}, ensure_ascii=escaped)
    path.write_text(f'{line}\n\n{{"text": "more"}}\r\n', "utf-8", newline="")
    assert [line.text for line in read_replay(path)] == [text, "more"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "line 2: invalid JSON"),
        ('{"txt": "a"}', "line 2: txt: there is no such field"),
        ('{"repeat": true}', "line 2: it has neither text nor error"),
        ('{"text": "a", "more": 1}', "line 2: more: "),
        ('{"text": "a", "match": "("}', "line 2: match: not a regular expression"),
        ('["text"]', "line 2: a line, and its usage, must be a JSON object"),
        ('{"text": 7}', "line 2: text: int is not what belongs there"),
        ('{"text": "a", "repeat": 1}', "line 2: repeat: int is not"),
        ('{"text": "a", "tokens_per_second": true}', "line 2: tokens_per_second: bool is not"),
        ('{"text": "a", "tokens_per_second": 0}', "line 2: tokens_per_second: it must be more"),
        ('{"text": "a", "usage": {"input_tokens": "1"}}', "line 2: input_tokens: str is not"),
        ('{"text": "a", "usage": {"tokens": 1}}', "line 2: tokens: there is no such field"),
        ("[" * 100_000, EXTREME),
        ('{"tokens_per_second": ' + "9" * 5_000 + "}", EXTREME),
    ],
)
def test_replay_file_error_names_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "replay.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n', "utf-8")
    with pytest.raises(ModelError) as caught:
        read_replay(path)
    assert f"{path}, {message}" in str(caught.value)


def test_non_file_is_refused_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ModelError, match="is not a file"):
        read_replay(path)
