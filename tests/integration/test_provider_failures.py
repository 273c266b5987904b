"""Services that refuse, are busy, break off, stall, or send nonsense: one sentence for the user,
and the partial answer stays."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from typing import Any

import pytest

from mahtab_tui.agent import create_repl_agent
from mahtab_tui.llm import calls
from mahtab_tui.llm.base import ServiceError
from mahtab_tui.llm.failures import explain_error, retry_after
from mahtab_tui.llm.providers import get_llm
from tests.agents import RecordedSession, read
from tests.integration.asking import PATIENCE, ask, get_key, refuse
from tests.services import OPENAI, OPENROUTER, Piece, Protocol, Reply, Service, _data, serving

BROKE_OFF = "The connection broke off in the middle of the answer."
MISSING = "The model does not exist or is not available to this account"

RAW = {"raw": '{"error": {"message": "Too many"}}'}
BEHIND = {"code": 429, "message": "Provider returned error", "metadata": RAW}


class RecordingEvent(threading.Event):
    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0)
        return super().wait(timeout)


@pytest.mark.parametrize(
    ("status", "kind", "sentence"),
    [
        (400, "invalid_request_error", "The service rejected the request: No model, since."),
        (401, "authentication_error", "The key was not accepted: No model, since."),
        (402, "billing_error", "The account cannot pay for the answer: No model, since."),
        (403, "permission_error", "This account may not use the model: No model, since."),
        (404, "not_found_error", f"{MISSING}: No model, since."),
    ],
)
def test_refusal_gives_one_sentence(
    service: Service, protocol: Protocol, status: int, kind: str, sentence: str
) -> None:
    answer = ask(service, protocol, refuse(protocol, status, "No model,\nsince.", kind=kind))
    assert answer.failure.removesuffix(f" Check {get_key(protocol)}.") == sentence
    assert len(service.asked) == 1, "it is not asked again"
    assert answer.usage is None


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (400, "context_length_exceeded", "This model's maximum context length is 8192 tokens."),
        (400, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
        (413, "request_too_large", "Too big."),
        (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        (
            400,
            "invalid-argument",
            "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
        ),
        (
            422,
            "validation",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.",
        ),
        (422, "validation", "Input validation error: `inputs` must have less than 1024 tokens."),
        (400, "x", "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
        (
            400,
            "BadRequestError",
            "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        ),
        (
            400,
            "x",
            "The prompt (total length 5000) is too long to fit into the model (context length 4096).",
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000",
        ),
        (
            400,
            "x",
            "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
        ),
        (
            400,
            "invalid_input_argument",
            "the number of input tokens 5000 cannot exceed the total tokens limit 4096",
        ),
        (400, "x", "Input length 9000 exceeds maximum allowed token size 8192"),
    ],
)
def test_too_long_conversation_is_recognised(
    service: Service, protocol: Protocol, status: int, kind: str, message: str
) -> None:
    answer = ask(service, protocol, refuse(protocol, status, message, kind=kind))
    assert answer.is_too_long
    assert answer.failure.startswith("The conversation is too long for the model: ")


def test_account_without_credit_is_not_retried(service: Service) -> None:
    reason = "You exceeded your current quota."
    answer = ask(service, OPENAI, refuse(OPENAI, 429, reason, kind="insufficient_quota"))
    assert answer.failure == f"The account cannot pay for the answer: {reason}"
    assert len(service.asked) == 1


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_busy_service_is_retried_after_its_requested_pause(
    service: Service, protocol: Protocol, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_BUSY_PAUSES_S", (0.01, 0.01))
    busy = refuse(protocol, status, "Later.", kind="x", headers={"retry-after": "0.2"})
    service.replies = [busy, protocol.reply("Now")]
    cancelled = RecordingEvent()
    pauses: list[str] = []
    answer = read(get_llm(protocol.spec), cancelled=cancelled, on_pause=pauses.append)
    assert (answer.text, answer.failure) == ("Now", "")
    assert len(pauses) == 1
    assert "Later. Trying again in" in pauses[0]
    assert cancelled.waited == [0.2]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "nan"}, 0.0),
        ({"retry-after": "Fri, 32 Foo 2026"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
    ],
)
def test_the_pause_is_read_from_the_headers(headers: dict[str, str], seconds: float) -> None:
    message = Message()
    for name, value in headers.items():
        message[name] = value
    assert retry_after(ServiceError(b"", 429, message)) == seconds


def test_the_pause_may_be_a_date() -> None:
    message = Message()
    message["retry-after"] = format_datetime(datetime.now(UTC) + timedelta(seconds=90))
    assert 60 < retry_after(ServiceError(b"", 429, message)) <= 91


@pytest.mark.parametrize(
    "body",
    [
        [{"error": {"code": 400, "message": "No, since.", "status": "INVALID_ARGUMENT"}}],
        {"detail": "No, since."},
        {"detail": {"error": "No, since."}},
        {"detail": [{"loc": ["body", "model"], "msg": "No, since.", "type": "missing"}]},
        {"object": "error", "message": "No, since.", "type": "BadRequestError", "code": 400},
        {"success": False, "errors": [{"code": 7003, "message": "No, since."}], "messages": []},
    ],
)
def test_errors_of_gemini_fastapi_vllm_and_cloudflare_show_their_words(body: object) -> None:
    error = ServiceError(json.dumps(body).encode(), 400)
    assert str(explain_error(error)) == "The service rejected the request: No, since."


def test_permanently_busy_service_is_a_failure(
    service: Service, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_BUSY_PAUSES_S", (0.01, 0.01))
    answer = ask(service, protocol, refuse(protocol, 429, "Later.", kind="x"))
    assert answer.failure == "The service's limit is reached: Later."
    assert len(service.asked) == 3


def test_service_requesting_an_hour_fails_at_once(service: Service) -> None:
    answer = ask(
        service, OPENAI, refuse(OPENAI, 429, "Later.", kind="x", headers={"retry-after": "3600"})
    )
    assert (
        answer.failure == "The service's limit is reached: Later. It asks to wait for 60 minutes."
    )
    assert len(service.asked) == 1


def test_waiting_for_a_busy_service_can_be_stopped(
    service: Service, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_BUSY_PAUSES_S", (60.0,))
    service.replies = [refuse(protocol, 429, "Later.", kind="x"), protocol.reply("Now")]
    cancelled = threading.Event()
    answer = read(get_llm(protocol.spec), cancelled=cancelled, on_pause=lambda _: cancelled.set())
    assert (answer.text, answer.is_stopped, answer.failure) == ("", True, "")
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
    ("event", "choice", "failure"),
    [
        ({}, {}, "The service ended the answer with an error."),
        ({"error": {"code": 502, "message": "Gone"}}, {}, "The service failed: Gone."),
        ({"error": {"code": "server_error", "message": "Gone"}}, {}, "The service failed: Gone."),
        ({"error": BEHIND}, {}, "The service's limit is reached: Too many."),
        ({}, {"error": {"code": 503, "message": "Gone"}}, "The service is not available: Gone."),
    ],
)
def test_openrouter_error_in_an_event_or_its_choice_is_reported(
    service: Service, event: dict[str, Any], choice: dict[str, Any], failure: str
) -> None:
    choices = [{"index": 0, "delta": {"content": ""}, "finish_reason": "error", **choice}]
    pieces = [OPENROUTER.words("Half"), _data("m", **event, choices=choices)]
    answer = ask(service, OPENROUTER, OPENROUTER.sending(pieces))
    assert (answer.text, answer.failure) == ("Half", failure)


@pytest.mark.parametrize("drop", [True, False])
def test_dropped_connection_keeps_the_partial_answer_and_a_cost_estimate(
    service: Service, protocol: Protocol, drop: bool
) -> None:
    answer = ask(service, protocol, protocol.sending([protocol.words("Half of it")], drop=drop))
    assert (answer.text, answer.failure, answer.is_complete) == ("Half of it", BROKE_OFF, False)
    assert answer.usage is not None
    assert answer.usage.estimated
    assert answer.usage.output_tokens > 0


def test_unreachable_service_gives_one_sentence(
    protocol: Protocol, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as closed_service:
        urls = "ANTHROPIC_BASE_URL ANTHROPIC_API_URL OPENAI_BASE_URL OPENAI_API_BASE"
        for name in (*urls.split(), "OPENROUTER_API_BASE", "OLLAMA_HOST"):
            monkeypatch.setenv(name, closed_service.url)
    failure = read(get_llm(protocol.spec, timeout=PATIENCE)).failure
    assert failure.startswith("The service cannot be reached: ")
    assert "\n" not in failure


def test_a_stream_that_stalls_is_given_up(service: Service, protocol: Protocol) -> None:
    stalling = protocol.sending([protocol.words("Well"), service.stall])
    answer = ask(service, protocol, stalling, timeout=1.5)
    failure = "The model has not responded for 1.5 s, so the answer was abandoned."
    assert (answer.text, answer.failure) == ("Well", failure)
    assert service.left.wait(PATIENCE), "the connection is closed"


def test_keepalives_between_tokens_do_not_count_as_a_stall(service: Service) -> None:
    alive: list[Piece] = [b": OPENROUTER PROCESSING\n\n", lambda: time.sleep(0.25)]
    reply = OPENROUTER.sending([*alive * 12, OPENROUTER.words("So."), *OPENROUTER.end])
    answer = ask(service, OPENROUTER, reply, timeout=2)
    assert (answer.text, answer.failure) == ("So.", "")


@pytest.mark.parametrize("silent", ["before", "between"])
def test_stop_closes_a_silent_connection(service: Service, protocol: Protocol, silent: str) -> None:
    cancelled = threading.Event()
    begin = [] if silent == "before" else [protocol.words("Well")]
    service.replies = [protocol.sending([*begin, cancelled.set, service.stall])]
    answer = read(get_llm(protocol.spec, timeout=600), cancelled=cancelled)
    assert answer.is_stopped
    assert service.left.wait(PATIENCE)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe\x00 garbage {{{\n\n",
        b"data: {not json\n\n",
        b"data: [1, 2, 3]\n\n",
        b'data: {"choices": "none"}\n\n',
        'data: {"error": {"code": "²", "message": "Gone"}}\n\n'.encode(),
        b"<html>Log in here</html>",
        b'{"message": 7}\n',
        b"\x00" * 100_000,
    ],
)
def test_garbage_gives_one_sentence(service: Service, protocol: Protocol, garbage: bytes) -> None:
    answer = ask(service, protocol, Reply([garbage], headers={"content-type": protocol.content}))
    assert answer.text == ""
    assert answer.failure
    assert "\n" not in answer.failure
    assert len(answer.failure) < 400


def test_html_page_as_a_reply_gives_one_sentence(service: Service, protocol: Protocol) -> None:
    page = Reply([b"<html>Log in here</html>"], headers={"content-type": "text/html"})
    answer = ask(service, protocol, page)
    assert answer.failure == "The service sent something that is not a model's answer."


def test_a_token_of_nearly_two_million_characters_arrives_whole(
    service: Service, protocol: Protocol
) -> None:
    answer = ask(service, protocol, protocol.reply("x" * 1_900_000, "y"))
    assert len(answer.text) == 1_900_001
    assert answer.is_complete


def test_invalid_address_gives_one_sentence() -> None:
    failure = read(get_llm("openai:x", base_url="http://[broken")).failure
    assert failure.startswith("The service cannot be reached: ")


def test_too_long_error_leads_to_one_shorter_retry(
    service: Service, protocol: Protocol, recorded_session: RecordedSession
) -> None:
    too_long = refuse(protocol, 400, "prompt is too long: 9 tokens > 8 maximum")
    service.replies = [protocol.reply("One."), too_long, protocol.reply("Two.")]
    agent = create_repl_agent(recorded_session.host, get_llm(protocol.spec))
    agent.ask_sync("zebra " * 4_000)
    assert agent.ask_sync("second?") == "Two."
    _, full_size, retry_size = (len(str(body["messages"])) for body in service.asked)
    assert retry_size < full_size / 2 + 6_000
    assert "zebra" not in str(service.asked[2]["messages"])
    assert recorded_session.notices("error") == []
