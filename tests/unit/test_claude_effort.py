"""How long `claude` may think and answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.agent.graph import create_repl_graph
from mahtab_tui.agent.repl_agent import run_graph
from mahtab_tui.agent.state import create_initial_state
from mahtab_tui.llm.providers import get_llm
from tests.agents import Desk
from tests.fake_claude import FakeClaude
from tests.unit.conftest import InstallClaude, MakeClaude

WATCHED = ("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "MAX_THINKING_TOKENS", "CLAUDE_CODE_DISABLE_THINKING")
CODE = "Let me see.\n\n```python\nx = 6 * 7\n```"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.session.close()


def limits(fake: FakeClaude) -> dict[str, str]:
    """Return the limits of answer and thinking that the last process got."""
    return {name: value for name, value in fake.starts[-1]["env"].items() if value is not None}


def test_answer_has_no_limit_by_default(
    install_claude: InstallClaude, claude_model: MakeClaude
) -> None:
    fake = install_claude("answers", answers=["one"], watched=WATCHED)
    claude_model().invoke("hello")
    assert limits(fake) == {}
    assert "--effort" not in fake.starts[0]["argv"]


def test_users_own_limit_applies(
    install_claude: InstallClaude, claude_model: MakeClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "5000")
    fake = install_claude("answers", answers=["one"], watched=WATCHED)
    claude_model().invoke("hello")
    assert limits(fake) == {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "5000"}


def test_cost_limit_leaves_half_of_the_tokens_for_the_answer(
    install_claude: InstallClaude,
) -> None:
    fake = install_claude("answers", answers=["one"], watched=WATCHED)
    llm = get_llm("claude", max_tokens=8_000)
    llm.invoke("hello")
    assert limits(fake) == {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8000", "MAX_THINKING_TOKENS": "4000"}


def test_suggestions_are_made_without_thinking(install_claude: InstallClaude) -> None:
    fake = install_claude("answers", answers=["one"], watched=WATCHED)
    get_llm("claude:haiku", thinking=False).invoke("hello")
    assert limits(fake) == {"CLAUDE_CODE_DISABLE_THINKING": "1"}


def test_checks_run_at_low_effort_in_their_own_process(
    install_claude: InstallClaude, claude_model: MakeClaude, desk: Desk
) -> None:
    fake = install_claude("answers", answers=[CODE, "It is 42."])
    llm = claude_model(model="opus")
    run_graph(
        create_repl_graph(llm, desk.host, reflection="always"),
        create_initial_state("what is it?"),
        desk.host,
    )
    efforts = [start["argv"][-4:] for start in fake.starts]
    assert efforts[0][-2:] == ["--model", "opus"]
    assert efforts[1] == ["--effort", "low", "--model", "opus"]
    assert len(fake.starts) == 2
    llm.close()
    assert [Path(f"/proc/{start['pid']}").exists() for start in fake.starts] == [False, False]


def test_stopping_a_turn_stops_its_check(
    install_claude: InstallClaude, claude_model: MakeClaude
) -> None:
    fake = install_claude("streams")
    llm = claude_model()
    for _ in llm.checker.stream("is it complete?"):
        llm.stop()
    assert [entry["control"] for entry in fake.received if "control" in entry] == ["interrupt"]
