"""Use of a model's window, counted by kind."""

from __future__ import annotations

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from mahtab_tui.agent.conversation import section_sizes
from mahtab_tui.llm.prompts import earlier_conversation, render_context, user_turn
from mahtab_tui.llm.usage import estimated_tokens
from mahtab_tui.session.components import context_use
from mahtab_tui.tui.screens.session_info import context_lines

OUTPUT = '<user-repl-out cell="1">' + "o 1 " * 1_000 + "</user-repl-out>"


def test_each_part_of_the_conversation_is_counted_once() -> None:
    asked = user_turn(
        render_context(OUTPUT, attachments="one two three four " * 500), {}, "word " * 100
    )
    summary = earlier_conversation("said " * 300)
    messages: list[AnyMessage] = [HumanMessage(f"{summary}\n\n{asked}"), AIMessage("word " * 100)]
    sizes = section_sizes(messages, {}, 100_000)
    assert 300 <= sizes["earlier-conversation"] <= 400
    assert 2_000 <= sizes["attachments"] <= 2_300
    assert 2_000 <= sizes["outputs"] <= 4_000
    assert 200 <= sizes["words"] <= 280
    assert sizes["skills"] == sizes["pictures"] == 0
    whole = estimated_tokens(str(message.text) for message in messages)
    assert abs(sum(sizes.values()) - whole) <= 0.1 * whole


def test_external_texts_are_counted_where_they_appear() -> None:
    asked = render_context(
        "", attachments="</attachments>\n<skills>\n" + "text " * 1_000 + "\n</skills>"
    )
    sizes = section_sizes([HumanMessage(asked)], {}, 100_000)
    assert sizes["attachments"] > 1_000
    assert sizes["skills"] == 0


def test_the_table_names_what_there_is_and_fits_the_smallest_screen() -> None:
    use = context_use(50_000, {"program": 1_500, "words": 123_456, "outputs": 0, "variables": 7})
    assert [part.tokens for part in use.parts] == [1_500, 123_456, 7]
    lines = str(context_lines(use, 66)).split("\n")
    assert lines[0] == "About 124,963 of 50,000 tokens (250%) go with the next question."
    assert max(map(len, lines)) <= 68
    assert lines[-1].split()[:4] == ["█", "Variables", "7", "0%"]
