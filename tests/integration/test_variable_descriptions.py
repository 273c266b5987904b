"""What the model is told of variables with each question: the user's and its own, after an undo, a
change and a summary, and after a block of code."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.bus.records import Namespace
from mahtab_tui.llm.prompts import COMPUTE, VARIABLES
from tests import tags
from tests.integration.sessions import Opened, OpenSession
from tests.waiting import wait_for

CARS = "import pandas as pd\ncars = pd.DataFrame({'maker': ['bmw', 'fiat', 'fiat'], 'weight': [1500, 900, 950]})"
WHOLE = "cars: DataFrame, 3 rows x 2 columns  [the user's]\ncolumns: maker str | weight int64\n"


def told(it: Opened, question: str) -> str:
    """Ask, and return what the model is told of variables with the question; empty if nothing."""
    it.ask_and_wait(question)
    wait_for(lambda: not it.session.agent.in_turn)
    texts = [str(message.text) for message in it.session.agent.agent.messages]
    request_text = next(
        text
        for text in reversed(texts)
        if text.startswith(question) or f"Question: {question}" in text
    )
    _, title, descriptions = request_text.rpartition(f"{VARIABLES}\n\n")
    return descriptions.partition("\n\nQuestion: ")[0] if title else ""


def results(it: Opened) -> str:
    """Return what the model got of its code."""
    texts = [str(message.text) for message in it.session.agent.agent.messages]
    return "\n".join(text for text in texts if "<assistant-repl-out" in text)


def code(*lines: str) -> str:
    return "I run it.\n\n```python\n{}\n```\n".format("\n".join(lines))


def test_table_is_described_once_until_it_changes(open_session: OpenSession) -> None:
    it = open_session("One.", "Two.", "Three.")
    it.run(CARS)
    assert told(it, "how heavy are the cars?").startswith(WHOLE)
    assert told(it, "and now?") == ""
    it.run("cars.loc[0, 'weight'] = 1")
    assert "\n0 | bmw | 1\n1 | fiat | 900\n" in told(it, "and with that?")


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
    assert told(it, "question two") == ""
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
    it = open_session(helpers, "It is 3350.", "Yes.", "Yes.", approval="auto", reflection="never")
    it.run(CARS, "limit = 5", "def area(w): return w")
    first_lines = told(it, "what is the weight of all?").split("\n")
    assert "limit: int = 5  [the user's]" in first_lines
    assert "def area(w)  [the user's]" in first_lines
    lines = told(it, "are you sure?").split("\n")
    assert lines[0] == "cars: DataFrame, 3 rows x 3 columns  [the user's]"
    assert lines[-2] == "Imported modules: plt", "all else stands in the conversation"
    title, _, names = lines[-1].partition(": ")
    assert title == "As described above"
    assert sorted(names.split(", ")) == ["axes", "fig", "limit", "names", "total"]
    assert "figure" not in "".join(lines[:-2]).lower()

    # All is told again once the kernel's variables may be others.
    it.run("late = 1")
    it.session.undo.undo(it.session.cells.last)
    lines = told(it, "and now?").split("\n")
    assert "limit: int = 5  [the user's]" in lines
    assert lines[-1] == (
        "Not made by the user: names: list = 2 items; total: int = 3350; axes: Axes; fig: Figure"
    )
    assert lines[-2] == "Imported modules: plt; pd"


def test_line_about_a_variable_is_sent_again_only_if_it_changed(open_session: OpenSession) -> None:
    block = code("best = 'bmw'", "worst = 'fiat'", "print('done')")
    answers = ("Done.", "Yes.", "Yes.", "Yes.")
    it = open_session(block, *answers, approval="auto", reflection="never")
    it.run("limit = 5")
    it.ask_and_wait("choose")
    wait_for(lambda: not it.session.agent.in_turn)
    assert told(it, "are you sure?") == ""
    it.run("limit = 6", "worst = 'audi'")
    assert told(it, "and with these?").split("\n") == [
        "limit: int = 6  [the user's]",
        "Not made by the user: worst: str = 'audi'",
        "As described above: best",
    ]
    assert told(it, "and now?") == ""


def test_variables_that_the_conversation_describes_are_named_beside_new_ones(
    open_session: OpenSession,
) -> None:
    it = open_session({"text": "So.", "repeat": True})
    it.run(CARS, "limit = 5", "_hidden = 1")
    assert "As described above" not in told(it, "how many cars?")
    it.run("new_cars = cars[cars.weight > 1000]")
    assert told(it, "and of these?").split("\n")[-1] == "As described above: limit, cars"
    it.run("late = 1")
    lines = told(it, "are the cars above the limit?").split("\n")
    assert lines[-1] == "As described above: limit, cars, new_cars", "first those of the question"
    many = [f"n{number:02}" for number in range(30)]
    it.run("; ".join(f"{name} = 0" for name in many))
    told(it, "and now?")
    it.run("last = 1")
    line = told(it, "and at the end?").split("\n")[-1]
    assert line == f"As described above: {', '.join(reversed(many[10:]))}, …"


def test_word_of_the_line_about_unchanged_variables_does_not_make_a_question_one_about_data(
    open_session: OpenSession,
) -> None:
    it = open_session({"text": "So.", "repeat": True}, loop="single")
    it.run("limit = 5")
    told(it, "how high is the limit?")
    it.run("late = 1")
    assert "As described above: limit" in told(it, "and how late is it?")
    it.ask_and_wait("is it described well?")
    assert COMPUTE not in str(it.session.agent.agent.messages[-2].text)


def test_line_says_whether_an_assigned_value_is_the_one_before(open_session: OpenSession) -> None:
    block = code("same = [1, 2]", "other = [1, 3]", "print('done')")
    it = open_session(block, block, "Done.", approval="auto", reflection="never")
    it.run("same = [1, 2]; other = [1, 2]")
    it.ask_and_wait("change them")
    assert "\nsame: list = 2 items  [the user's, unchanged]\n" in results(it)
    assert "\nother: list = 2 items  [the user's, changed]</" in results(it)


def test_block_lists_neither_what_it_printed_nor_what_it_needed_in_passing(
    open_session: OpenSession,
) -> None:
    block = code(
        "from pathlib import Path",
        "for number, name in enumerate(['a', 'b']): pass",
        "with open(Path('x.txt'), 'w') as file: pass",
        "count = 1234",
        "share = 0.123456789",
        "for kept in range(3): total = kept",
        "print(count, 'rows', round(share, 2))",
    )
    it = open_session(block, "Done.", "Yes.", approval="auto", reflection="never")
    it.ask_and_wait("count them")
    wait_for(lambda: not it.session.agent.in_turn)
    listed = results(it).partition("1234 rows 0.12\n")[2].partition("</")[0]
    names = [line.partition(":")[0] for line in listed.split("\n") if ": " in line]
    assert names == ["share", "total"]
    assert told(it, "are you sure?") == ""


def test_data_that_a_block_imports_is_listed(open_session: OpenSession, project: Path) -> None:
    (project / "loading.py").write_text("rows = [1, 2, 3]\ndef load(): return rows\n")
    block = code("from loading import load, rows", "count = len(rows)", "print(count)")
    it = open_session(block, "Done.", approval="auto", reflection="never")
    it.ask_and_wait("count them")
    assert "\nrows: list = 3 items" in results(it)
    assert "\nload: " not in results(it)


def test_what_a_block_showed_is_told_once_its_message_is_gone(open_session: OpenSession) -> None:
    block = code("for number in [4, 5]: count = 1234", "print(count)")
    it = open_session(block, "Done.", "Yes.", approval="auto", reflection="never")
    it.ask_and_wait("count them")
    wait_for(lambda: not it.session.agent.in_turn)
    messages = "\n".join(str(message.text) for message in it.session.agent.agent.messages)
    texts = it.session.agent.describe_variables("are you sure?", messages)
    assert texts == {}
    texts = it.session.agent.describe_variables("are you sure?", "It was 12345.")
    assert "number: int = 5" in "".join(texts.values())
    assert "count: int = 1234" in "".join(texts.values())


def test_block_names_all_that_it_changed(open_session: OpenSession) -> None:
    assignments = "; ".join(f"n{number} = {number}" for number in range(12))
    block = code(
        "cars['heavy'] = True", "del gone", assignments, "def f(x): return x", "print('so')"
    )
    it = open_session(block, "Done.", approval="auto", reflection="never")
    it.run(CARS, "gone = 1")
    it.ask_and_wait("change it")
    assert "\ncars: DataFrame = 3 × 3  [the user's, changed]\n" in results(it)
    assert "\nn11: int = 11\n… and 6 more: n0, n1, n2, n3, n4, f\nDeleted: gone" in results(it)


def test_description_after_a_block_is_not_repeated_with_the_next_question(
    open_session: OpenSession,
) -> None:
    block = code("heavy = cars[cars.weight > 1000]", "cars['price'] = 1")
    it = open_session(block, "Done.", "Yes.", approval="auto", reflection="never")
    it.run(CARS)
    it.ask_and_wait("change the cars")
    assert "price " in it.model_messages()
    wait_for(lambda: not it.session.agent.in_turn)
    assert told(it, "what are heavy cars?") == ""


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
