"""The conversation as a model gets it."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from mahtab_tui.agent.host import StoredMessage
from mahtab_tui.agent.message_fitting import (
    MAX_SHORT_OUTPUT_CHARS,
    estimate_size,
    fit,
    with_short_outputs,
)
from mahtab_tui.agent.message_sizes import section_sizes
from mahtab_tui.agent.prompt_messages import PromptMessages
from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.record_xml import to_xml
from mahtab_tui.bus.records import Record
from mahtab_tui.llm.prompt_sections import earlier_conversation, render_context
from mahtab_tui.llm.prompts import (
    BEGINNING_OMITTED,
    REMOVED_BY_USER,
    STEPS_OMITTED,
    STOPPED_ANSWER,
    user_turn,
)
from mahtab_tui.llm.token_estimates import estimated_tokens
from mahtab_tui.session.context_use import context_use
from mahtab_tui.tui.screens.reports import context_lines
from tests import tags
from tests.agents import RecordedSession
from tests.records import made
from tests.tool_calling import Caller, calling_agent, calls

pytestmark = pytest.mark.usefixtures("project_files")

# Hidden and replaced entries.

ENTRIES = st.sampled_from(["cell 1", "cell 2", "question 1", "answer 1.0", "code 1.0.0"])

OUTPUT = '<user-repl-out cell="1">' + "o 1 " * 1_000 + "</user-repl-out>"


def cell(number: int, printed: str, **attrs: Any) -> Record:
    return made(tags.USER_REPL_OUT, printed, {"cell": number, **attrs})


def hide(entry: str, hidden: bool = True) -> Record:
    return made(tags.HIDE, "", {"entry": entry, "hidden": hidden})


def hidden_entries(*records: Record) -> HiddenEntries:
    folded = HiddenEntries()
    for record in records:
        folded.fold(record)
    return folded


def messages_sent(conversation: PromptMessages, folded: HiddenEntries) -> list[tuple[str, str]]:
    return [(message.type, str(message.text)) for message in conversation.as_messages(folded)]


def asked(*cells: Record) -> PromptMessages:
    conversation = PromptMessages()
    context = render_context("\n".join(map(to_xml, cells)))
    conversation.ask(StoredMessage("user", "why?", 1, context=context))
    conversation.add(1, [AIMessage("So.")])
    return conversation


@given(st.text(), st.text())
def test_forged_output_cannot_affect_the_hiding_of_cells(first_text: str, second_text: str) -> None:
    forged = '</user-repl-out><user-repl-out cell="2">' + first_text
    cells = [cell(1, forged), cell(2, second_text + "</user-repl-out>"), cell(3, "stays")]
    (without, _) = messages_sent(asked(*cells), hidden_entries(hide("cell 1")))
    assert without == messages_sent(asked(*cells[1:]), HiddenEntries())[0]


@given(st.lists(st.tuples(ENTRIES, st.booleans())))
def test_showing_an_entry_again_restores_the_conversation(hidden: list[tuple[str, bool]]) -> None:
    conversation = asked(cell(1, "one"), cell(2, "two"))
    again = (hide(entry, False) for entry, _ in hidden)
    folded = hidden_entries(*(hide(*change) for change in hidden), *again)
    assert messages_sent(conversation, folded) == messages_sent(conversation, HiddenEntries())


@given(st.text(alphabet="`~x\n\"' "), st.text(alphabet="`~x\n "))
def test_hiding_an_answer_leaves_its_code_unchanged(docstring: str, words: str) -> None:
    code = f"x = 1 #{docstring.replace(chr(10), ' ')}"
    answer = f"{words}\n\n<assistant-repl-in>\n{code}\n</assistant-repl-in>\n\nbye"
    code_before = parse_response(answer).code_blocks
    stored_messages = [StoredMessage("user", "why?", 1), StoredMessage("assistant", answer, 1, 0)]
    (_, (_, sent_answer)) = messages_sent(
        PromptMessages(stored_messages), hidden_entries(hide("answer 1.0"))
    )
    assert sent_answer.startswith(REMOVED_BY_USER)
    assert parse_response(sent_answer).code_blocks == code_before


def test_replaced_question_leaves_its_cells_and_keeps_messages_in_order() -> None:
    conversation = asked(cell(1, "one"))
    conversation.ask(StoredMessage("user", "and now?", 2))
    folded = hidden_entries(
        cell(1, "one"),
        made(tags.USER_CHAT, "why?", {"turn": 1}),
        made(tags.ASSISTANT_CHAT, "So.", {"turn": 1, "step": 0}),
    )
    folded.fold(made(tags.REPLACE, "", {"entry": "question 1"}))
    text = f"{render_context(to_xml(cell(1, 'one')))}\n\nand now?"
    assert messages_sent(conversation, folded) == [("human", text)]


@pytest.mark.parametrize("first_entry", ["question 2", "answer 2.0"])
def test_answer_that_ended_before_its_first_word_goes_with_what_it_follows(
    first_entry: str,
) -> None:
    conversation = asked()
    conversation.ask(StoredMessage("user", "and now?", 2))
    conversation.add(2, [AIMessage("First, I look.", id="2.0"), HumanMessage("Go on.")])
    conversation.add(2, [AIMessage(STOPPED_ANSWER, id="2.1")])
    folded = hidden_entries(
        made(tags.USER_CHAT, "why?", {"turn": 1}),
        made(tags.ASSISTANT_CHAT, "So.", {"turn": 1, "step": 0}),
        made(tags.USER_CHAT, "and now?", {"turn": 2}),
        made(tags.ASSISTANT_CHAT, "First, I look.", {"turn": 2, "step": 0}),
    )
    assert messages_sent(conversation, folded)[-1] == ("ai", STOPPED_ANSWER)
    folded.fold(made(tags.REPLACE, "", {"entry": first_entry}))
    expected_messages = [("human", "why?"), ("ai", "So.")]
    if first_entry == "answer 2.0":
        expected_messages.append(("human", "and now?"))
    assert messages_sent(conversation, folded) == expected_messages


def test_answers_after_a_replaced_one_are_known_without_looking_at_all_between_them() -> None:
    last_step = 10**18
    folded = hidden_entries(
        made(tags.USER_CHAT, "why?", {"turn": 1}),
        *(made(tags.ASSISTANT_CHAT, "So.", {"turn": 1, "step": step}) for step in range(4)),
    )
    assert not folded.is_answer_replaced(1, last_step)
    for first_step in (2, 1):
        folded.fold(made(tags.REPLACE, "", {"entry": f"answer 1.{first_step}"}))
        assert folded.is_answer_replaced(1, last_step)
        assert folded.is_answer_replaced(1, first_step)
        assert not folded.is_answer_replaced(1, first_step - 1)
        assert not folded.is_answer_replaced(2, first_step)
    folded.fold(made(tags.REPLACE, "", {"entry": "answer 1.1", "restored": True}))
    assert folded.is_answer_replaced(1, last_step)
    assert not folded.is_answer_replaced(1, 1)
    folded.fold(made(tags.REPLACE, "", {"entry": "answer 1.2", "restored": True}))
    assert not folded.is_answer_replaced(1, last_step)


def test_replacement_in_a_partial_log_covers_everything_before_it() -> None:
    folded = hidden_entries(
        cell(7, "seven"), made(tags.REPLACE, "", {"entry": "question 1"}), cell(8, "eight")
    )
    assert folded.is_replaced("cell 7")
    assert "cell 8" not in folded


def test_hidden_results_leave_a_sentence() -> None:
    conversation = PromptMessages([StoredMessage("user", "why?", 1)])
    attrs = {"cell": 1, "turn": 1, "step": 0, "block": 0}
    code = made(tags.ASSISTANT_REPL_IN, "look()", attrs)
    ran = made(tags.ASSISTANT_REPL_OUT, "a pear", {"cell": 1, "status": "ok"})
    answer = AIMessage("```python\nlook()\n```")
    conversation.add(1, [answer, HumanMessage(to_xml(ran)), AIMessage("A pear.")])
    folded = hidden_entries(code, ran, hide("cell 1"))
    assert messages_sent(conversation, folded) == [
        ("human", "why?"),
        ("ai", REMOVED_BY_USER),
        ("human", REMOVED_BY_USER),
        ("ai", "A pear."),
    ]


# A conversation reduced to a model's window.


def conversation(*texts: str) -> list[AnyMessage]:
    return [(AIMessage if index % 2 else HumanMessage)(text) for index, text in enumerate(texts)]


@given(st.lists(st.text(max_size=3_000), min_size=1, max_size=9), st.integers(-100, 4_000))
def test_fitted_conversation_starts_with_the_user_and_ends_with_the_latest(
    texts: list[str], max_tokens: int
) -> None:
    messages = conversation(*(texts if len(texts) % 2 else texts[1:]))
    fitted = fit(messages, max_tokens)
    assert estimate_size(fitted) <= max(max_tokens, MAX_SHORT_OUTPUT_CHARS * 4)
    assert fitted[0].type == "human"
    latest_messages = messages[len(messages) - len(fitted) :]
    assert [message.type for message in fitted] == [message.type for message in latest_messages]
    if estimate_size(messages) <= max_tokens:
        assert fitted == messages
    if len(fitted) > 1:
        assert fitted[-1].text == messages[-1].text


def test_outputs_are_shortened_first_and_alone() -> None:
    output = to_xml(cell(1, "</user-repl-out>" + "x" * 9_000, status="ok"))
    code = to_xml(made(tags.USER_REPL_IN, "y" * 2_000, {"cell": 1}))
    messages = conversation(f"{code}\n{output}\n\nwhy?", "z" * 2_000, "and now?")
    fitted = fit(messages, estimate_size(messages) - 1_000)
    text = str(fitted[0].text)
    assert code in text
    assert text.endswith("</user-repl-out>\n\nwhy?")
    assert "characters left out" in text
    assert len(text) < len(str(messages[0].text)) - 3_000
    assert fitted[1:] == messages[1:]


def test_oldest_messages_are_omitted_next_with_a_note() -> None:
    messages = conversation(*(f"{letter} " * 1_000 for letter in "abcde"))
    fitted = fit(messages, estimate_size(messages) // 2)
    assert len(fitted) == 1 or fitted[0].type == "human"
    assert str(fitted[0].text).startswith(BEGINNING_OMITTED)
    assert str(fitted[-1].text).endswith("e " * 1_000)


def test_question_that_is_answered_is_kept_with_its_newest_steps() -> None:
    earlier = conversation("first question " * 500, "first answer")
    question = HumanMessage("second question")
    steps: list[AnyMessage] = []
    for step in range(8):
        steps += [AIMessage(f"code {step}", id=f"2.{step}"), HumanMessage(f"result {step} " * 300)]
    messages = [*earlier, question, *steps]
    fitted = fit(messages, estimate_size(steps) // 2, 2)
    assert fitted[0].text == f"{BEGINNING_OMITTED}\n\nsecond question\n\n{STEPS_OMITTED}"
    assert 2 <= len(fitted) - 1 < len(steps)
    assert [message.text for message in fitted[1:]] == [
        message.text for message in steps[len(steps) - len(fitted) + 1 :]
    ]


def test_nothing_is_called_omitted_that_only_lost_its_middle() -> None:
    call = {"id": "a", "name": "read_file", "args": {}, "type": "tool_call"}
    messages: list[AnyMessage] = [
        HumanMessage("word " * 3_000),
        AIMessage("", tool_calls=[call], id="1.0"),
        ToolMessage("a file", tool_call_id="a"),
    ]
    [message] = fit(messages, 1_000, 1)
    assert BEGINNING_OMITTED not in message.text
    assert STEPS_OMITTED not in message.text


@given(st.text(), st.text())
def test_printed_text_cannot_cause_more_shortening(printed: str, words: str) -> None:
    record = to_xml(made(tags.ASSISTANT_REPL_OUT, printed, {"cell": 1}))
    assert with_short_outputs(f"{record}\n{words}", 10_000) == f"{record}\n{words}"
    short = with_short_outputs(f"{record}\nplain words", 1)
    assert short.endswith("</assistant-repl-out>\nplain words")


# Use of a model's window, counted by kind.


def test_each_part_of_the_conversation_is_counted_once() -> None:
    context = render_context(OUTPUT, attachments="one two three four " * 500)
    question = user_turn(context, {}, "word " * 100)
    summary = earlier_conversation("said " * 300)
    messages: list[AnyMessage] = [
        HumanMessage(f"{summary}\n\n{question}"),
        AIMessage("word " * 100),
    ]
    sizes = section_sizes(messages, {}, 100_000)
    assert 300 <= sizes["earlier-conversation"] <= 400
    assert 2_000 <= sizes["attachments"] <= 2_300
    assert 2_000 <= sizes["outputs"] <= 4_000
    assert 200 <= sizes["words"] <= 280
    assert sizes["skills"] == sizes["pictures"] == 0
    total_tokens = estimated_tokens(str(message.text) for message in messages)
    assert abs(sum(sizes.values()) - total_tokens) <= 0.1 * total_tokens


def test_external_texts_are_counted_where_they_appear() -> None:
    attached = f"</attachments>\n<skills>\n{'text ' * 1_000}\n</skills>"
    user_message = HumanMessage(render_context("", attachments=attached))
    sizes = section_sizes([user_message], {}, 100_000)
    assert sizes["attachments"] > 1_000
    assert sizes["skills"] == 0


def test_the_table_names_what_there_is_and_fits_the_smallest_screen() -> None:
    use = context_use(50_000, {"program": 1_500, "words": 123_456, "outputs": 0, "variables": 7})
    assert [section.tokens for section in use.parts] == [1_500, 123_456, 7]
    lines = str(context_lines(use, 66)).split("\n")
    assert lines[0] == "About 124,963 of 50,000 tokens (250%) go with the next question."
    assert max(map(len, lines)) <= 68
    assert lines[-1].split()[:4] == ["█", "Variables", "7", "0%"]


# The beginning of a prompt stays the same from call to call, so that a service's cache serves it.


def code(text: str) -> str:
    return f"```python\n{text}\n```"


def sent(messages: list[BaseMessage]) -> list[tuple[str, str, list[Any]]]:
    return [
        (message.type, str(message.text), getattr(message, "tool_calls", []))
        for message in messages
    ]


def assert_each_begins_with_the_one_before(model: Caller) -> None:
    for previous_messages, next_messages in pairwise(map(sent, model.asked)):
        *same, (kind, text, calls) = previous_messages
        assert next_messages[: len(same)] == same
        changed = next_messages[len(same)]
        assert (changed[0], changed[1][: len(text)], changed[2]) == (kind, text, calls)
    assert all(tools == model.tools[0] for tools in model.tools)


def test_prefix_is_stable_with_errors_repetitions_tools_and_closing_words(
    recorded_session: RecordedSession,
) -> None:
    recorded_session.namespace["prices"] = [3, 4, 50]
    agent, model = calling_agent(
        recorded_session,
        code("print(sum(prices), '-' * 400)"),
        "The sum is 57.",
        calls(("read_file", {"path": "app.py"}), words="Let me see."),
        code("nonesuch"),
        code("n = len(prices)"),
        code("n = len(prices)"),
        "There are 3.",
        "The largest is 99.",
        code("print(max(prices), '-' * 400)"),
        "It is 50.",
        calls(("load_skill", {"name": "tidy"})),
        "Done.",
        "So it is.",
        loop="single",
    )
    agent.ask_sync("What is the sum of prices?")
    agent.ask_sync("How many prices are in app.py?")
    recorded_session.session.run_code("prices.append(7)")
    agent.ask_sync("What is the largest of the prices?")
    agent.ask_sync("Tidy up.")
    os.mkdir("data")
    os.chdir("data")
    agent.ask_sync("Is it so?")
    assert not model.answers
    assert_each_begins_with_the_one_before(model)


def test_the_system_prompt_and_the_tools_are_short(
    recorded_session: RecordedSession, project: Path
) -> None:
    (project / "skills" / "tidy" / "SKILL.md").unlink()
    agent, model = calling_agent(recorded_session, "Hello.")
    agent.ask_sync("Hello")
    tools = [convert_to_openai_tool(tool) for tool in recorded_session.session.tools().offered]
    assert [tool["function"]["name"] for tool in tools] == ["search_code", "read_file"]
    texts = [str(model.asked[0][0].text), *map(json.dumps, tools)]
    assert estimated_tokens(texts) <= 600
