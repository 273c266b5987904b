"""Taking things out of the model's conversation, in a real terminal."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.conftest import Start

IDLE = r"● kernel .*idle"
KNOWS = {
    "match": r"\A(?![\s\S]*secret)(?![\s\S]*pear)[\s\S]*apple",
    "text": "I know only of the apple.",
}


def test_hidden_and_replaced_entries_are_not_sent_even_after_a_resume(
    start: Start, replay: Callable[..., str]
) -> None:
    screen = start("--model", replay(KNOWS))
    screen.wait(IDLE)
    screen.type("print('sec' + 'ret')")
    screen.press("enter")
    screen.wait("▌ secret")
    screen.type("fruit = 'pear'")
    screen.press("enter")
    screen.wait(r"\+ fruit str 'pear'")
    screen.click("▌ secret")
    screen.press("ctrl+o")
    screen.wait("tTRANSCRIPT")
    screen.type("t")
    screen.wait("▐")
    screen.press("enter")
    screen.wait("Run again")
    screen.type("m")
    screen.wait("hidden from the model")
    screen.press("down", "enter")
    screen.wait("R ↵ Replace")
    screen.type("R")
    screen.press("enter")
    screen.wait("Enter replaces")
    screen.press(*["backspace"] * 5)
    screen.type("apple'")
    screen.press("enter")
    screen.wait("removed from the conversation")
    screen.wait(r"~ fruit str .*'apple'")
    screen.press("f2")
    screen.type("what do you know?")
    screen.press("enter")
    screen.wait("only of the apple")
    assert screen.leave() == 0
    again = start("--model", replay(KNOWS), "--continue")
    again.wait("Conversation restored")
    again.wait("hidden from the model")
    again.wait("replaced")
    again.type("`and now?")
    again.press("enter")
    again.wait("has no matching answer left|only of the apple")
