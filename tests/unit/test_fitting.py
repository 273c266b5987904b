"""A conversation made to fit what a model reads at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from mahtab_tui.agent.conversation import SHORT, estimate_size, fit, with_short_outputs
from mahtab_tui.bus.prompt import to_xml
from mahtab_tui.llm.prompts import BEGINNING_OMITTED
from tests import tags
from tests.records import made


def conversation(*texts: str) -> list[AnyMessage]:
    """Messages of the person and the model by turns."""
    return [
        HumanMessage(text) if index % 2 == 0 else AIMessage(text)
        for index, text in enumerate(texts)
    ]


@given(st.lists(st.text(max_size=3_000), min_size=1, max_size=9), st.integers(-100, 4_000))
def test_fitted_conversation_starts_with_the_user_and_ends_with_the_latest(
    texts: list[str], room: int
) -> None:
    messages = conversation(*(texts if len(texts) % 2 else texts[1:]))
    fitted = fit(messages, room)
    assert estimate_size(fitted) <= max(room, SHORT * 4)
    assert fitted[0].type == "human"
    assert [message.type for message in fitted] == [
        message.type for message in messages[len(messages) - len(fitted) :]
    ]
    if estimate_size(messages) <= room:
        assert fitted == messages
    if len(fitted) > 1:
        assert fitted[-1].text == messages[-1].text


def test_outputs_are_shortened_first_and_alone() -> None:
    output = to_xml(
        made(tags.USER_REPL_OUT, "</user-repl-out>" + "x" * 9_000, {"cell": 1, "status": "ok"})
    )
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


@given(st.text(), st.text())
def test_printed_text_cannot_cause_more_shortening(printed: str, words: str) -> None:
    record = to_xml(made(tags.ASSISTANT_REPL_OUT, printed, {"cell": 1}))
    assert with_short_outputs(f"{record}\n{words}", 10_000) == f"{record}\n{words}"
    assert with_short_outputs(f"{record}\nplain words", 1).endswith(
        "</assistant-repl-out>\nplain words"
    )
