"""Keep or undo, in a real terminal."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.conftest import Start

IDLE = r"● kernel .*idle"


def block(code: str) -> str:
    return f"Let me do it.\n\n```python\n{code}\n```\n"


def test_models_changes_are_undone_and_then_accepted(
    start: Start, replay: Callable[..., str]
) -> None:
    after_undo = {
        "text": "As you like.",
        "match": r"The person undid this code \(block 1\) after it had run: too many",
    }
    model = replay(
        block("items.append(3); more = 1"),
        after_undo,
        block("items.clear()"),
        "Done.",
        block("open('x', 'w')"),
        "Not then.",
    )
    screen = start("--model", model, "--approval", "review", columns=120, lines=35)
    screen.wait(IDLE)
    screen.wait("review changes")
    screen.type("items = [1, 2]")
    screen.press("enter")
    screen.wait(r"items\s+2 items\s+list")
    screen.type("`add to it")
    screen.press("enter")
    screen.wait("Keep or undo what cell 2 of replay changed")
    screen.wait(r"~ items  list 2 items → 3 items")
    screen.press("f7")
    screen.press_until("n", "say why, or nothing", asked="n undo")
    screen.type("too many")
    screen.press("enter")
    screen.wait("As you like")
    screen.wait(r"items\s+2 items\s+list")
    screen.type("clear it")
    screen.press("enter")
    screen.wait("Keep or undo what cell 3 of replay changed")
    screen.press("f7")
    screen.press_until("y", "Done", asked="y keep")
    screen.wait(r"items\s+0 items\s+list|items\s+empty\s+list")
    screen.type("write")
    screen.press("enter")
    screen.wait("Keep or undo what cell 4 of replay changed")
    screen.wait("Cannot be undone:")
    screen.wait("x: this file was opened for writing; it stays as it is now")
    screen.press("f8")
    screen.wait("auto-run")
    screen.press("f8")
    screen.wait("ask first")
    screen.press("escape")
    screen.wait(IDLE)
    assert screen.leave() == 0
