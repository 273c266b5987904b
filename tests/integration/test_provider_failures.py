"""Services that refuse, are busy, break off, stall, or say what makes no sense: one sentence, and
what was said stays."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from mahtab_tui.agent import create_repl_agent, model_calls
from mahtab_tui.agent.model_calls import read_answer
from mahtab_tui.llm.providers import get_llm
from tests.agents import Desk
from tests.integration.asking import PATIENCE, ask, get_key
from tests.services import OLLAMA, OPENAI, OPENROUTER, Protocol, Reply, Service, refusing, serving

BROKE_OFF = "The connection broke off in the middle of the answer."


class _Recording(threading.Event):
    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0)
        return super().wait(timeout)


@pytest.mark.parametrize(
    ("status", "kind", "sentence"),
    [
        (400, "invalid_request_error", "The service rejected the request: No, since."),
        (401, "authentication_error", "The key was not accepted: No, since."),
        (402, "billing_error", "The account cannot pay for the answer: No, since."),
        (403, "permission_error", "This account may not use the model: No, since."),
        (
            404,
            "not_found_error",
            "The model does not exist or is not available to this account: No, since.",
        ),
    ],
)
def test_refusal_gives_one_sentence(
    service: Service, protocol: Protocol, status: int, kind: str, sentence: str
) -> None:
    answer = ask(
        service, protocol, refusing(status, "No,\nsince.", kind=kind, plain=protocol is OLLAMA)
    )
    assert answer.failure.removesuffix(f" Check {get_key(protocol)}.") == sentence
    assert len(service.asked) == 1, "it is not asked again"
    assert answer.usage is None


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (400, "context_length_exceeded", "This model's maximum context length is 8192 tokens."),
        (400, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
        (413, "request_too_large", "Too big."),
    ],
)
def test_too_long_conversation_is_recognised(
    service: Service, protocol: Protocol, status: int, kind: str, message: str
) -> None:
    answer = ask(service, protocol, refusing(status, message, kind=kind, plain=protocol is OLLAMA))
    assert answer.too_long
    assert answer.failure.startswith("The conversation is too long for the model: ")


def test_account_without_credit_is_not_retried(service: Service) -> None:
    answer = ask(
        service,
        OPENAI,
        refusing(429, "You exceeded your current quota.", kind="insufficient_quota"),
    )
    assert (
        answer.failure == "The account cannot pay for the answer: You exceeded your current quota."
    )
    assert len(service.asked) == 1


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_busy_service_is_retried_after_its_requested_pause(
    service: Service, protocol: Protocol, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_calls, "_PAUSES", (0.01, 0.01))
    service.replies = [
        refusing(
            status, "Later.", kind="x", plain=protocol is OLLAMA, headers={"retry-after": "0.2"}
        ),
        protocol.reply("Now"),
    ]
    cancelled = _Recording()
    pauses: list[str] = []
    answer = read_answer(
        get_llm(protocol.spec), [HumanMessage("hi")], cancelled, on_pause=pauses.append
    )
    assert (answer.text, answer.failure) == ("Now", "")
    assert len(pauses) == 1
    assert "Later. Trying again in" in pauses[0]
    assert cancelled.waited == [0.2]


def test_permanently_busy_service_is_a_failure(
    service: Service, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_calls, "_PAUSES", (0.01, 0.01))
    answer = ask(service, protocol, refusing(429, "Later.", kind="x", plain=protocol is OLLAMA))
    assert answer.failure == "The service's limit is reached: Later."
    assert len(service.asked) == 3


def test_service_requesting_an_hour_fails_at_once(service: Service) -> None:
    answer = ask(
        service, OPENAI, refusing(429, "Later.", kind="x", headers={"retry-after": "3600"})
    )
    assert (
        answer.failure == "The service's limit is reached: Later. It asks to wait for 60 minutes."
    )
    assert len(service.asked) == 1


def test_waiting_for_a_busy_service_can_be_stopped(
    service: Service, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_calls, "_PAUSES", (60.0,))
    service.replies = [
        refusing(429, "Later.", kind="x", plain=protocol is OLLAMA),
        protocol.reply("Now"),
    ]
    cancelled = threading.Event()
    answer = read_answer(
        get_llm(protocol.spec),
        [HumanMessage("hi")],
        cancelled,
        on_pause=lambda sentence: cancelled.set(),
    )
    assert (answer.text, answer.stopped, answer.failure) == ("", True, "")
    assert len(service.asked) == 1


def test_overload_in_midstream_keeps_the_partial_answer_without_a_retry(
    service: Service, protocol: Protocol
) -> None:
    answer = ask(service, protocol, protocol.sending([protocol.words("Half"), protocol.broken]))
    assert answer.text == "Half"
    assert "verloaded" in answer.failure
    assert "\n" not in answer.failure
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ("", "The service ended the answer with an error."),
        ('"error": {"code": 502, "message": "Gone"}, ', "The service failed: Gone."),
        ('"error": {"code": "server_error", "message": "Gone"}, ', "The service failed: Gone."),
        (
            '"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "{\\"error\\": {\\"message\\": \\"Too many\\"}}"}}, ',
            "The service's limit is reached: Too many.",
        ),
    ],
)
def test_openrouter_error_with_an_empty_choice_is_reported(
    service: Service, error: str, failure: str
) -> None:
    choice = '"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]'
    event = f'data: {{"id": "1", "created": 1, "model": "m", {error}{choice}}}\n\n'.encode()
    answer = ask(service, OPENROUTER, OPENROUTER.sending([OPENROUTER.words("Half"), event]))
    assert (answer.text, answer.failure) == ("Half", failure)


def test_openrouter_error_inside_a_choice_is_reported(service: Service) -> None:
    choice = {
        "index": 0,
        "delta": {},
        "finish_reason": "error",
        "error": {"code": 503, "message": "Gone"},
    }
    event = f"data: {json.dumps({'choices': [choice]})}\n\n".encode()
    answer = ask(service, OPENROUTER, OPENROUTER.sending([OPENROUTER.words("Half"), event]))
    assert (answer.text, answer.failure) == ("Half", "The service is not available: Gone.")


@pytest.mark.parametrize("drop", [True, False])
def test_dropped_connection_keeps_the_partial_answer_and_a_cost_estimate(
    service: Service, protocol: Protocol, drop: bool
) -> None:
    answer = ask(service, protocol, protocol.sending([protocol.words("Half of it")], drop=drop))
    assert (answer.text, answer.failure, answer.ended) == ("Half of it", BROKE_OFF, False)
    assert answer.usage is not None
    assert answer.usage.estimated
    assert answer.usage.output_tokens > 0


def test_unreachable_service_gives_one_sentence(
    protocol: Protocol, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as gone:
        for name in (
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_API_URL",
            "OPENAI_BASE_URL",
            "OPENAI_API_BASE",
            "OPENROUTER_API_BASE",
            "OLLAMA_HOST",
        ):
            monkeypatch.setenv(name, gone.url)
    failure = read_answer(
        get_llm(protocol.spec, timeout=PATIENCE), [HumanMessage("hi")], threading.Event()
    ).failure
    assert failure.startswith("The service cannot be reached: ")
    assert "\n" not in failure


def test_a_stream_that_stalls_is_given_up(service: Service, protocol: Protocol) -> None:
    answer = ask(
        service, protocol, protocol.sending([protocol.words("Well"), service.stall]), timeout=1.5
    )
    assert (answer.text, answer.failure) == (
        "Well",
        "The model has not responded for 1.5 s, so the answer was abandoned.",
    )
    assert service.left.wait(PATIENCE), "the connection is closed"


def test_keepalives_between_tokens_do_not_count_as_a_stall(service: Service) -> None:
    alive = [
        piece
        for _ in range(12)
        for piece in (b": OPENROUTER PROCESSING\n\n", lambda: time.sleep(0.25))
    ]
    answer = ask(
        service,
        OPENROUTER,
        OPENROUTER.sending([*alive, OPENROUTER.words("So."), *OPENROUTER.end]),
        timeout=2,
    )
    assert (answer.text, answer.failure) == ("So.", "")


@pytest.mark.parametrize("silent", ["before", "between"])
def test_stop_closes_a_silent_connection(service: Service, protocol: Protocol, silent: str) -> None:
    cancelled = threading.Event()
    begin = [] if silent == "before" else [protocol.words("Well")]
    service.replies = [protocol.sending([*begin, cancelled.set, service.stall])]
    answer = read_answer(get_llm(protocol.spec, timeout=600), [HumanMessage("hi")], cancelled)
    assert answer.stopped
    assert service.left.wait(PATIENCE)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"\xff\xfe\x00 garbage {{{\n\n"],
        [b"data: {not json\n\n"],
        [b"data: [1, 2, 3]\n\n"],
        [b'data: {"choices": "none"}\n\n'],
        ['data: {"error": {"code": "²", "message": "Gone"}}\n\n'.encode()],
        [b"<html>Log in here</html>"],
        [b'{"message": 7}\n'],
        [b"\x00" * 100_000],
    ],
)
def test_garbage_gives_one_sentence(
    service: Service, protocol: Protocol, pieces: list[bytes]
) -> None:
    answer = ask(service, protocol, Reply(pieces, headers={"content-type": protocol.content}))
    assert answer.text == ""
    assert answer.failure
    assert "\n" not in answer.failure
    assert len(answer.failure) < 400


def test_html_page_as_a_reply_gives_one_sentence(service: Service, protocol: Protocol) -> None:
    answer = ask(
        service,
        protocol,
        Reply([b"<html>Log in here</html>"], headers={"content-type": "text/html"}),
    )
    assert answer.failure == "The service sent something that is not a model's answer."


def test_two_million_character_token_arrives_whole(service: Service, protocol: Protocol) -> None:
    answer = ask(service, protocol, protocol.reply("x" * 2_000_000, "y"))
    assert len(answer.text) == 2_000_001
    assert answer.ended


def test_invalid_address_gives_one_sentence() -> None:
    failure = read_answer(
        get_llm("openai:x", base_url="http://[broken"), [HumanMessage("hi")], threading.Event()
    ).failure
    assert failure.startswith("The service cannot be reached: ")


def test_too_long_error_leads_to_one_shorter_retry(
    service: Service, protocol: Protocol, tmp_path: Path
) -> None:
    desk = Desk(tmp_path)
    too_long = refusing(400, "prompt is too long: 9 tokens > 8 maximum", plain=protocol is OLLAMA)
    service.replies = [protocol.reply("One."), too_long, protocol.reply("Two.")]
    agent = create_repl_agent(desk.host, get_llm(protocol.spec))
    try:
        agent.ask_sync("zebra " * 4_000)
        assert agent.ask_sync("second?") == "Two."
    finally:
        desk.session.close()
    _, whole, less = (len(str(body["messages"])) for body in service.asked)
    assert less < whole / 2 + 6_000
    assert "zebra" not in str(service.asked[2]["messages"])
    assert desk.notices("error") == []
