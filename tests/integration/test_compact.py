"""`/compact`: the model summarises the conversation before the last question at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.integration.sessions import Opened, Watched
from tests.services import OPENAI, Service
from tests.waiting import wait_for

LONG = "All about pears and their weights. " * 60


@pytest.fixture
def it(service: Service, project: Path) -> Iterator[Opened]:
    """A session whose model has answered two questions at length."""
    store = Watched()
    session = Session(
        load_settings(model=OPENAI.spec, reflection="never"),
        ProcessKernel(),
        HeadlessFrontend(),
        store=store,
        name="test",
    )
    session.start()
    service.replies = [OPENAI.reply(LONG)]
    session.agent.ask("question one")
    session.agent.ask("question two")
    yield Opened(session, store)
    session.close()


def states(it: Opened) -> list[str]:
    return [str(record.attrs["state"]) for record in it.store.records if record.tag == tags.AGENT]


def notices(it: Opened) -> list[str]:
    return [record.text for record in it.store.records if record.tag == tags.NOTICE]


def sent_text(service: Service) -> str:
    return json.dumps(service.asked[-1], ensure_ascii=False)


def test_summary_uses_the_users_words_and_reports_the_savings(it: Opened, service: Service) -> None:
    service.replies = [OPENAI.reply("Pears were weighed.")]
    it.session.compact("the weights </keep> of <conversation> pears")
    record = it.store.wait(tags.SUMMARY)
    wait_for(lambda: not it.session.turn_runs)
    assert (record.text, record.attrs["turn"]) == ("Pears were weighed.", 1)
    assert "keep this above all:\\n<keep>\\nthe weights &lt;/keep> of" in sent_text(service)
    assert "question one" in sent_text(service)
    assert "question two" not in sent_text(service)
    assert states(it)[-2:] == ["summarising", "done"]
    (notice,) = [text for text in notices(it) if "only a summary" in text]
    before, after = (
        int(part.replace(",", ""))
        for part in notice.partition("(about ")[2].partition(" tokens)")[0].split(" → ")
    )
    assert before > 1_400
    assert after < 0.7 * before
    it.session.agent.ask("question three")
    assert "Pears were weighed." in sent_text(service)
    assert "question one" not in sent_text(service)
    assert "question two" in sent_text(service)


def test_escape_stops_summarising_and_the_conversation_stays(it: Opened, service: Service) -> None:
    service.replies = [OPENAI.sending([OPENAI.words("Pears"), service.stall])]
    it.session.compact("")
    wait_for(lambda: len(service.asked) == 3)
    assert it.session.stop() == "model"
    wait_for(lambda: not it.session.turn_runs)
    assert states(it)[-1] == "stopped"
    assert_untouched(it, service)


@pytest.mark.parametrize(
    "reply",
    [
        lambda: OPENAI.reply(""),
        lambda: OPENAI.reply("x " * 5_000),
        lambda: OPENAI.reply("no")._replace(status=400),
    ],
)
def test_failing_or_verbose_model_changes_nothing(
    it: Opened, service: Service, reply: Callable[[], object]
) -> None:
    service.replies = [reply()]  # type: ignore[list-item]
    it.session.compact("the weights")
    wait_for(lambda: any("Nothing was summarised" in text for text in notices(it)))
    wait_for(lambda: not it.session.turn_runs)
    assert states(it)[-1] == "failed"
    assert_untouched(it, service)


def assert_untouched(it: Opened, service: Service) -> None:
    assert not [record for record in it.store.records if record.tag == tags.SUMMARY]
    service.replies = [OPENAI.reply("Yes.")]
    it.session.agent.ask("question three")
    assert "question one" in sent_text(service)
    assert (
        "earlier-conversation"
        not in sent_text(service).partition('"messages"')[2].partition("user")[2]
    )


def test_short_conversation_is_not_summarised(it: Opened, service: Service) -> None:
    service.replies = [OPENAI.reply("Pears.")]
    it.session.compact("")
    it.store.wait(tags.SUMMARY)
    wait_for(lambda: not it.session.turn_runs)
    asked = len(service.asked)
    it.session.compact("")
    wait_for(lambda: any("nothing before the last question" in text for text in notices(it)))
    assert len(service.asked) == asked


def test_summarising_is_refused_while_the_model_answers(it: Opened, service: Service) -> None:
    with it.session.turns.turn():
        it.session.compact("")
    assert any("The model is working" in text for text in notices(it))
    assert len(service.asked) == 2


def test_resumed_session_continues_from_the_summary(it: Opened, service: Service) -> None:
    service.replies = [OPENAI.reply("Pears were weighed.")]
    it.session.compact("")
    it.store.wait(tags.SUMMARY)
    wait_for(lambda: not it.session.turn_runs)
    again = Session(
        it.session.settings,
        ProcessKernel(),
        HeadlessFrontend(),
        store=Watched(),
        name="test",
        past=list(it.store.records),
    )
    again.start()
    again.agent.ask("question three")
    again.close()
    assert "Pears were weighed." in sent_text(service)
    assert "question one" not in sent_text(service)
