"""Record of the model's window after each request: the provider's count, or an estimate."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from mahtab_tui.bus import records
from mahtab_tui.llm.usage import estimated_tokens
from tests.integration.sessions import Opened
from tests.services import OPENAI, Protocol, Reply, Service
from tests.waiting import wait_for

Open = Callable[..., Opened]


class Windows(logging.Handler):
    """The records of a session about the model's window."""

    def __init__(self, it: Opened) -> None:
        super().__init__()
        self.reported: list[records.Window] = []
        it.session.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(found := records.get_record(record), records.Window):
            self.reported.append(found)


def test_token_count_of_the_provider_is_used(
    open_session: Open, service: Service, protocol: Protocol
) -> None:
    it = open_session(model=protocol.spec, reflection="never")
    windows = Windows(it)
    service.replies = [protocol.reply("Yes.")]
    it.session.agent.ask("one?")
    (window,) = windows.reported
    assert (window.tokens, window.estimated) == (1_000, False)
    assert window.size > 8_000


def test_missing_count_is_estimated(open_session: Open, service: Service) -> None:
    it = open_session(model=OPENAI.spec, reflection="never")
    windows = Windows(it)
    end = [piece for piece in OPENAI.end if b"usage" not in piece]
    service.replies = [
        Reply([*OPENAI.begin, OPENAI.words("Yes."), *end], 200, {"content-type": OPENAI.content})
    ]
    it.session.agent.ask("one? " * 2_000)
    (window,) = windows.reported
    assert window.estimated
    sent = [str(message["content"]) for message in service.asked[-1]["messages"]]
    tools = str(service.asked[-1].get("tools", ""))
    assert abs(window.tokens / estimated_tokens([*sent, tools]) - 1) < 0.1


def test_no_window_is_reported_for_an_unknown_size_or_after_a_failure(
    open_session: Open, service: Service
) -> None:
    it = open_session(model="openai:our-own-model", reflection="never")
    windows = Windows(it)
    service.replies = [OPENAI.reply("Yes.")]
    it.session.agent.ask("one?")
    assert not windows.reported
    it = open_session(model=OPENAI.spec, reflection="never")
    windows = Windows(it)
    service.replies = [Reply([b"no"], 400)]
    with pytest.raises(Exception, match=r"."):
        it.session.agent.ask("one?")
    assert not windows.reported


def test_summary_makes_the_window_use_smaller(open_session: Open, service: Service) -> None:
    it = open_session(model=OPENAI.spec, reflection="never")
    windows = Windows(it)
    service.replies = [OPENAI.reply("All about pears. " * 500)]
    it.session.agent.ask("one?")
    it.session.agent.ask("two?")
    service.replies = [OPENAI.reply("Pears.")]
    it.session.compact("")
    wait_for(lambda: len(windows.reported) == 3)
    assert windows.reported[-1].estimated
    wait_for(lambda: not it.session.turn_runs)
