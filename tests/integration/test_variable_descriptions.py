"""What the model is told of variables with each question: the user's and its own, after an undo, a
change and a summary, and after a block of code."""

from __future__ import annotations

import pytest

from mahtab_tui.bus.records import Namespace
from mahtab_tui.llm.prompts import VARIABLES
from tests import tags
from tests.integration.sessions import Opened, OpenSession
from tests.waiting import wait_for

CARS = "import pandas as pd\ncars = pd.DataFrame({'maker': ['bmw', 'fiat', 'fiat'], 'weight': [1500, 900, 950]})"
WHOLE = "cars: DataFrame, 3 rows x 2 columns  [the user's]\nmaker "
LINE = "cars: DataFrame, 3 rows x 2 columns: maker str, weight int64  [the user's]"


def told(it: Opened, question: str) -> str:
    """Ask, and return what the model is told of variables with the question."""
    it.ask_and_wait(question)
    wait_for(lambda: not it.session.agent.in_turn)
    texts = [str(message.text) for message in it.session.agent.agent.messages]
    request_text = next(text for text in reversed(texts) if f"Question: {question}" in text)
    return request_text.rpartition(f"{VARIABLES}\n\n")[2].partition("\n\nQuestion: ")[0]


def code(*lines: str) -> str:
    return "I run it.\n\n```python\n{}\n```\n".format("\n".join(lines))


def test_table_is_described_once_and_then_named_with_its_columns(open_session: OpenSession) -> None:
    it = open_session("One.", "Two.", "Three.")
    it.run(CARS)
    assert told(it, "how heavy are the cars?").startswith(WHOLE)
    assert told(it, "and now?").split("\n")[0] == LINE
    it.run("cars.loc[0, 'weight'] = 1")
    assert "weight int64: 1 to 950" in told(it, "and with that?")


def test_small_model_is_told_which_values_a_question_names(open_session: OpenSession) -> None:
    it = open_session({"text": "So.", "repeat": True}, loop="single")
    it.run(CARS)
    lines = told(it, "how many are made by Fiat?").split("\n")
    assert lines[-1] == "Values in the data: cars['maker'] has the value 'fiat'."
    assert told(it, "and a bmw?").split("\n")[-1] == (
        "Values in the data: cars['maker'] has the value 'bmw'."
    )
    assert "Values in the data" not in told(it, "and the others?")
    it.run("private('cars')")
    assert "fiat" not in told(it, "how many Fiats?")


def test_capable_model_looks_for_values_itself(open_session: OpenSession) -> None:
    summary = {"text": "They counted cars.", "match": "keep the memory", "repeat": True}
    it = open_session(summary, {"text": "So.", "repeat": True}, loop="steps", max_history=2)
    it.run(CARS)
    for question in ("how many Fiats?", "how many BMWs?", "which Fiat is heavy?"):
        assert "Values in the data" not in told(it, question)
    assert it.store.of(tags.SUMMARY)


def test_table_is_described_anew_after_an_undo(open_session: OpenSession) -> None:
    it = open_session("One.", "Two.")
    it.run(CARS, "n = 1")
    assert told(it, "how heavy are the cars?").startswith(WHOLE)
    it.run("cars['price'] = 1")
    it.session.undo.undo(it.session.cells.last)
    assert told(it, "and now?").startswith(WHOLE)


@pytest.mark.parametrize("is_asked", [True, False])
def test_table_is_described_anew_after_a_summary(open_session: OpenSession, is_asked: bool) -> None:
    summary = {"text": "They counted cars.", "match": "keep the memory", "repeat": True}
    answer = {"text": "Yes.", "repeat": True}
    it = open_session(summary, answer, max_history=20 if is_asked else 2)
    it.run(CARS)
    assert told(it, "how heavy are the cars?").startswith(WHOLE)
    assert told(it, "question two").startswith(LINE)
    if is_asked:
        it.session.compact("")
        it.store.wait(tags.SUMMARY)
        wait_for(lambda: not it.session.agent.in_turn)
    assert WHOLE in told(it, "question three")
    assert it.store.of(tags.SUMMARY)


def test_own_helpers_of_the_model_share_a_line_after_the_users_variables(
    open_session: OpenSession,
) -> None:
    helpers = code(
        "import matplotlib.pyplot as plt",
        "fig, axes = plt.subplots()",
        "total = int(cars.weight.sum())",
        "names = ['bmw', 'fiat']",
        "cars['heavy'] = cars.weight > 1000",
        "print(total)",
    )
    it = open_session(helpers, "It is 3350.", "Yes.", approval="auto", reflection="never")
    it.run(CARS, "limit = 5", "def area(w): return w")
    it.ask_and_wait("what is the weight of all?")
    lines = told(it, "are you sure?").split("\n")
    assert lines[0] == "cars: DataFrame, 3 rows x 3 columns  [the user's]"
    assert "limit: int = 5  [the user's]" in lines
    assert "area: function = (w)  [the user's]" in lines
    assert lines[-1] == (
        "Not made by the user: fig: Figure; axes: Axes; total: int = 3350; names: list = 2 items"
    )
    assert lines[-2].startswith("Imported modules: pd; plt")
    assert "figure" not in "".join(lines[:-1]).lower()


def test_block_names_all_that_it_changed(open_session: OpenSession) -> None:
    assignments = "; ".join(f"n{number} = {number}" for number in range(12))
    block = code(
        "cars['heavy'] = True", "del gone", assignments, "def f(x): return x", "print('so')"
    )
    it = open_session(block, "Done.", approval="auto", reflection="never")
    it.run(CARS, "gone = 1")
    it.ask_and_wait("change it")
    [results] = [
        str(message.text)
        for message in it.session.agent.agent.messages
        if "<assistant-repl-out" in str(message.text)
    ]
    assert "\ncars: DataFrame = 3 × 3  [the user's, changed]\n" in results
    assert "\nn6: int = 6\n… and 6 more: n7, n8, n9, n10, n11, f\nDeleted: gone" in results


def test_description_after_a_block_is_not_repeated_with_the_next_question(
    open_session: OpenSession,
) -> None:
    block = code("heavy = cars[cars.weight > 1000]", "cars['price'] = 1")
    it = open_session(block, "Done.", "Yes.", approval="auto", reflection="never")
    it.run(CARS)
    it.ask_and_wait("change the cars")
    assert "price " in it.model_messages()
    wait_for(lambda: not it.session.agent.in_turn)
    lines = told(it, "what are heavy cars?").split("\n")
    assert lines[0].startswith("cars: DataFrame, 3 rows x 3 columns: maker str, ")
    assert "Not made by the user: heavy: DataFrame = 1 × 2" in lines


def test_variable_stays_the_users_when_the_model_changes_it(open_session: OpenSession) -> None:
    it = open_session(code("mine = [2]", "other = 1"), "Done.", approval="auto", reflection="never")
    it.run("mine = [1]")
    it.ask_and_wait("change it")
    it.store.wait(tags.NAMESPACE, party=it.session.info.party)
    is_made_by = it.session.cells.authors.provenance.is_made_by
    assert is_made_by("mine", "you")
    assert not is_made_by("other", "you")
    assert [record.party for record in it.store.records if isinstance(record, Namespace)][
        -1
    ] != "you"
