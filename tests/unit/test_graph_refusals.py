"""Code of the model's that may not run, since something may hide in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.bus.records import Decision
from mahtab_tui.settings.model import ApprovalMode
from tests import tags
from tests.agents import COMPLETE, Desk, code, last_text, words

HIDING = "a = '\x1bP'\nhidden = 1\nb = '\x1b\\'\nprint('harmless')"
WHY = "Line 1 contains the character U+001B, which can hide code from whoever reads it. Write it as the escape \\x1b and send the code again."


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.session.close()


@pytest.mark.parametrize("approval", ["ask", "review", "auto"])
def test_refused_code_does_not_run_or_ask(desk: Desk, approval: ApprovalMode) -> None:
    desk.decide()
    desk.host.info.approval = approval
    state = desk.run(
        code(HIDING),
        words(
            "Then not.",
            match=r"Block 1 of your code was not run\. Line 1 contains the character U\+001B",
        ),
    )
    assert "hidden" not in desk.namespace
    assert desk.approvals() == ["refused"]
    assert desk.notices("warning")[-1] == f"Code from replay was not run. {WHY}"
    assert not desk.of(tags.ASSISTANT_REPL_IN)
    assert state["current_response"] == "Then not."


def test_model_resends_refused_code_with_escapes(desk: Desk) -> None:
    desk.decide(Decision("run"))
    state = desk.run(code(HIDING), code("a = '\\x1bP'"), COMPLETE, words("Done."))
    assert desk.namespace["a"] == "\x1bP"
    assert desk.approvals() == ["refused", "waiting", "run"]
    assert state["current_response"] == "Done."


def test_blocks_after_refused_code_do_not_run(desk: Desk) -> None:
    desk.decide(Decision("run"))
    state = desk.run(code("first = 1", HIDING, "third = 3"), words("Then not."))
    assert {"first", "third"} & set(desk.namespace) == {"first"}
    sent = last_text(state, "human")
    assert "Block 2 of your code was not run. Line 1 contains" in sent
    assert "Block 3 of your code was not run, because the one before it failed." in sent


def test_replacement_written_by_the_user_runs_unchanged(desk: Desk) -> None:
    desk.decide(Decision("run", code="a = '\x1b'"))
    desk.run(code("a = 1"), COMPLETE, words("Done."))
    assert desk.namespace["a"] == "\x1b"
