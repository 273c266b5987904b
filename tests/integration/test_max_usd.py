"""A session that may cost only so much: whoever calls a model, the limit is not passed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.cli.headless import ANSWERED, FAILED, ask_once
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.integration.sessions import Opened
from tests.records import made
from tests.services import OPENAI, Service, refusing, serving

REFUSED = "The model was not asked: the call could cost up to $0.4000, and $0.2000 of the session's limit of $1.00 (max_usd) is left."


def priced(text: str, cost: float | None = 0.4, **more: Any) -> dict[str, Any]:
    return {
        "text": text,
        "usage": {"input_tokens": 10, "output_tokens": 5, "cost": cost},
        "repeat": True,
        **more,
    }


def paid(it: Opened) -> float:
    return sum(
        float(record.attrs["cost"]) for record in it.store.records if record.tag == tags.USAGE
    )


def test_question_costs_add_up_and_the_session_continues(
    open_session: Callable[..., Opened],
) -> None:
    it = open_session(priced("Yes."), max_usd=1.0)
    for number in range(1, 4):
        it.session.submit("ask", f"question {number}")
    assert it.store.wait(tags.NOTICE, level="error").text == REFUSED
    it.store.wait(tags.AGENT, state="failed", turn=3)
    assert paid(it) == pytest.approx(0.8)
    it.session.submit("python", "usage()")
    printed = it.store.wait(tags.USER_REPL_OUT).text
    assert "\nquestion 2" in printed, "a line for each, without print() as well"
    assert "question 3" not in printed
    assert "$0.2000 is left" in printed


def test_too_expensive_check_is_skipped(open_session: Callable[..., Opened]) -> None:
    it = open_session(
        priced("```python\nx = 1\n```"), max_usd=0.5, approval="auto", reflection="always"
    )
    it.session.submit("ask", "make x")
    notice = it.store.wait(tags.NOTICE, level="warning", text=None)
    texts = [record.text for record in it.store.records if record.tag == tags.NOTICE]
    it.store.wait(tags.AGENT, turn=1, state="failed")
    texts = [record.text for record in it.store.records if record.tag == tags.NOTICE]
    assert any(
        "The check of the result failed (The model was not asked: the call could cost up to $0.4000"
        in text
        for text in texts
    ), notice
    assert paid(it) == pytest.approx(0.4)


def test_a_search_and_a_question_share_the_limit(open_session: Callable[..., Opened]) -> None:
    it = open_session(priced("fine"), max_usd=1.0)
    it.session.submit("ask", "one")
    it.store.wait(tags.AGENT, turn=1, state="done")
    it.session.submit("python", "rlm('what?', 'a text')")
    it.store.wait(tags.USER_REPL_OUT, cell=1)
    it.session.submit("python", "rlm('what else?', 'a text')")
    assert (
        "The model was not asked: the call could cost up to $0.4000"
        in it.store.wait(tags.USER_REPL_OUT, cell=2).text
    )
    assert paid(it) == pytest.approx(0.8)
    table = it.session.spending.table()
    assert "question 1" in table
    assert "search what?" in table


def test_search_parts_wait_for_reserved_budget(open_session: Callable[..., Opened]) -> None:
    """Only one of eight calls at a time can be afforded, by its largest cost; its real cost is
    little."""
    dear = {**priced("never", 0.5, match="no question has this"), "repeat": False}
    root = {
        **priced(
            "```python\nFINAL(' '.join(rlm_map('read', partition(8))))\n```",
            0.01,
            match="Go through",
        ),
        "repeat": False,
    }
    it = open_session(dear, root, priced("fine", 0.01, match="read"), max_usd=0.7)
    it.session.submit("python", "rlm('Go through', '\\n'.join(f'line {n}' for n in range(9_000)))")
    assert it.store.wait(tags.USER_REPL_OUT, cell=1).text == " ".join(["fine"] * 8) + "\n"
    assert paid(it) == pytest.approx(0.09)


def test_suggestions_are_counted_and_end_at_the_limit(
    open_session: Callable[..., Opened], project: Path
) -> None:
    (project / "cheap.jsonl").write_text(json.dumps(priced("m(y)")), "utf-8")
    it = open_session(
        priced("Yes."), max_usd=1.0, suggestion_model=f"replay:{project / 'cheap.jsonl'}"
    )
    assert it.session.suggest is not None
    suggestions = [it.session.suggest("x = su", True, lambda: True) for _ in range(3)]
    assert suggestions == ["m(y)", "m(y)", ""]
    assert it.store.wait(tags.NOTICE).text == f"Suggestions are off: {REFUSED}"
    it.session.submit("ask", "one")
    it.store.wait(tags.AGENT, turn=1, state="failed")
    assert paid(it) == pytest.approx(0.8)


def test_cost_of_a_resumed_session_counts(open_session: Callable[..., Opened]) -> None:
    past = [made(tags.USAGE, "", {"model": "replay", "cost": 0.8, "source": "agent", "turn": 1})]
    it = open_session(priced("Yes."), max_usd=1.0, past=past)
    it.session.submit("ask", "one")
    assert it.store.wait(tags.NOTICE, level="error").text == REFUSED


def test_a_model_of_unknown_price_is_refused(open_session: Callable[..., Opened]) -> None:
    it = open_session(priced("Yes.", None), max_usd=1.0)
    it.session.submit("ask", "one")
    sentence = "The price of replay is unknown, so the limit of $1.00 (max_usd) cannot be enforced. Choose another model."
    assert it.store.wait(tags.NOTICE, level="error").text == sentence
    assert not [record for record in it.store.records if record.tag == tags.USAGE]


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service that answers for OpenAI."""
    with serving() as service:
        monkeypatch.setenv("OPENAI_API_KEY", "no-secret")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{service.url}/v1")
        monkeypatch.setenv("OPENAI_API_BASE", f"{service.url}/v1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        yield service


def test_headless_question_that_could_cost_too_much_is_not_sent(
    openai: Service, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openai.replies = [OPENAI.reply("Forty-two.")]
    assert (
        ask_once("How many?", load_settings(model="openai:gpt-4o", max_usd=0.01), [], as_json=False)
        == FAILED
    )
    assert "The model was not asked: the call could cost up to $0.0" in capsys.readouterr().err
    assert openai.asked == []
    assert (
        ask_once("How many?", load_settings(model="openai:gpt-4o", max_usd=0.2), [], as_json=False)
        == ANSWERED
    )
    assert capsys.readouterr().out == "Forty-two.\n"
    assert openai.asked[0]["max_completion_tokens"] == 8_192, (
        "an answer is bounded, so that its cost is known"
    )
    assert (
        ask_once("How many?", load_settings(model="openai:gpt-4o"), [], as_json=False) == ANSWERED
    )
    assert "max_completion_tokens" not in openai.asked[1], "without a limit it is not"


def test_headless_service_failure_gives_one_sentence(
    openai: Service, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openai.replies = [refusing(401, "Incorrect\x1b]52;c;aGFja2Vk\x07 API key\x1b[2J provided.")]
    assert ask_once("How many?", load_settings(model="openai:gpt-4o"), [], as_json=False) == FAILED
    errors = capsys.readouterr().err
    assert errors.splitlines() == [
        "mahtab-tui: The key was not accepted: Incorrect API key provided. Check OPENAI_API_KEY."
    ]
