"""The providers' own LangChain packages, over services on this machine that speak their streaming protocols."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from mahtab_tui.agent import create_repl_agent, hearing
from mahtab_tui.agent.hearing import Answer, hear
from mahtab_tui.llm.base import ModelBusy, ModelError
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.llm.remote import ChatRemote
from mahtab_tui.llm.usage import model_name, priced_as, worst_cost
from mahtab_tui.llm.windows import room_of
from tests.agents import Desk
from tests.services import OLLAMA, OPENAI, OPENROUTER, PROTOCOLS, Protocol, Reply, Service, refusing, serving

PATIENCE = 30.0
"""Seconds after which something that must come counts as lost."""
BROKE_OFF = "The connection broke off in the middle of the answer."


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service that all four packages find."""
    with serving() as service:
        for name in ("ANTHROPIC", "OPENAI", "OPENROUTER"):
            monkeypatch.setenv(f"{name}_API_KEY", "no-secret")
        for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL", "OLLAMA_HOST"):
            monkeypatch.setenv(name, service.url)
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENROUTER_API_BASE"):
            monkeypatch.setenv(name, f"{service.url}/v1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield service


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    """All four."""
    return PROTOCOLS[request.param]


def ask(service: Service, protocol: Protocol, *replies: Reply, timeout: float = PATIENCE) -> Answer:
    """One question to a service that answers so."""
    service.replies = list(replies)
    return hear(get_llm(protocol.spec, timeout=timeout), [HumanMessage("hi")], threading.Event())


def test_an_answer_is_seen_word_by_word_as_it_comes(service: Service, protocol: Protocol) -> None:
    """The service goes on only when each word has been seen."""
    seen: list[str] = []
    arrived = threading.Semaphore(0)

    def wait() -> None:
        assert arrived.acquire(timeout=PATIENCE)

    words = protocol.words
    service.replies = [protocol.sending([words("It "), wait, words("is "), wait, words("so."), wait, *protocol.end])]

    def see(token: str) -> None:
        seen.append(token)
        arrived.release()

    answer = hear(get_llm(protocol.spec, timeout=PATIENCE), [HumanMessage("hi")], threading.Event(), see)
    assert seen == ["It ", "is ", "so."]
    assert (answer.text, answer.ended) == ("It is so.", True)


def test_what_was_used_and_what_it_cost_is_told(service: Service, protocol: Protocol) -> None:
    usage = ask(service, protocol, protocol.reply("Hello")).usage
    assert usage is not None
    assert (usage["input_tokens"], usage["output_tokens"]) == (1000, 100)
    assert usage["model"] == protocol.spec.partition(":")[2]
    if protocol is OPENROUTER:
        assert usage["cost"] == 0.0123, "as OpenRouter itself tells it"
    elif protocol is OLLAMA:
        assert usage["cost"] == 0
    else:
        assert usage["cost"] > 0
    assert "estimated" not in usage


def test_an_answer_at_the_limit_of_tokens_was_cut(service: Service, protocol: Protocol) -> None:
    assert ask(service, protocol, protocol.sending([protocol.words("It is"), *protocol.cut])).cut


@pytest.mark.parametrize(
    ("status", "kind", "sentence"),
    [
        (400, "invalid_request_error", "The service does not take the request: No, since."),
        (401, "authentication_error", "The key is not accepted: No, since."),
        (402, "billing_error", "The account cannot pay for the answer: No, since."),
        (403, "permission_error", "This account may not use the model: No, since."),
        (404, "not_found_error", "The model is not there, or not for this account: No, since."),
    ],
)
def test_a_refusal_is_one_sentence(service: Service, protocol: Protocol, status: int, kind: str, sentence: str) -> None:
    answer = ask(service, protocol, refusing(status, "No,\nsince.", kind=kind, plain=protocol is OLLAMA))
    assert answer.failure.removesuffix(f" Check {get_key(protocol)}.") == sentence
    assert len(service.asked) == 1, "it is not asked again"
    assert answer.usage is None


def get_key(protocol: Protocol) -> str:
    """The variable of a provider's key."""
    llm = get_llm(protocol.spec)
    assert isinstance(llm, ChatRemote)
    return llm.key


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (400, "context_length_exceeded", "This model's maximum context length is 8192 tokens."),
        (400, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
        (413, "request_too_large", "Too big."),
    ],
)
def test_a_conversation_that_is_too_long_is_told_apart(service: Service, protocol: Protocol, status: int, kind: str, message: str) -> None:
    answer = ask(service, protocol, refusing(status, message, kind=kind, plain=protocol is OLLAMA))
    assert answer.too_long
    assert answer.failure.startswith("The conversation is too long for the model: ")


def test_an_account_without_money_is_not_asked_again(service: Service) -> None:
    answer = ask(service, OPENAI, refusing(429, "You exceeded your current quota.", kind="insufficient_quota"))
    assert answer.failure == "The account cannot pay for the answer: You exceeded your current quota."
    assert len(service.asked) == 1


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_a_busy_service_is_asked_again_after_the_pause_that_it_asks_for(
    service: Service, protocol: Protocol, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "_PAUSES", (0.01, 0.01))
    service.replies = [refusing(status, "Later.", kind="x", plain=protocol is OLLAMA, headers={"retry-after": "0.2"}), protocol.reply("Now")]
    cancelled = _Recording()
    pauses: list[str] = []
    answer = hear(get_llm(protocol.spec), [HumanMessage("hi")], cancelled, on_pause=pauses.append)
    assert (answer.text, answer.failure) == ("Now", "")
    assert len(pauses) == 1
    assert "Later. It is asked again in" in pauses[0]
    if protocol is not OLLAMA:  # its package does not tell what the service asks for
        assert cancelled.waited == [0.2]


class _Recording(threading.Event):
    """Remembers what was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0)
        return super().wait(timeout)


def test_a_service_that_stays_busy_has_failed(service: Service, protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearing, "_PAUSES", (0.01, 0.01))
    answer = ask(service, protocol, refusing(429, "Later.", kind="x", plain=protocol is OLLAMA))
    assert answer.failure == "The service's limit is reached: Later."
    assert len(service.asked) == 3


def test_a_service_that_asks_for_an_hour_has_failed_at_once(service: Service) -> None:
    answer = ask(service, OPENAI, refusing(429, "Later.", kind="x", headers={"retry-after": "3600"}))
    assert answer.failure == "The service's limit is reached: Later."
    assert len(service.asked) == 1


def test_waiting_for_a_busy_service_can_be_stopped(service: Service, protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearing, "_PAUSES", (60.0,))
    service.replies = [refusing(429, "Later.", kind="x", plain=protocol is OLLAMA), protocol.reply("Now")]
    cancelled = threading.Event()
    answer = hear(get_llm(protocol.spec), [HumanMessage("hi")], cancelled, on_pause=lambda sentence: cancelled.set())
    assert (answer.text, answer.stopped, answer.failure) == ("", True, "")
    assert len(service.asked) == 1


def test_an_overload_in_the_middle_keeps_what_was_said_and_is_not_repeated(service: Service, protocol: Protocol) -> None:
    answer = ask(service, protocol, protocol.sending([protocol.words("Half"), protocol.broken]))
    assert answer.text == "Half"
    assert "verloaded" in answer.failure
    assert "\n" not in answer.failure
    assert len(service.asked) == 1


def test_openrouter_tells_an_error_beside_an_empty_choice(service: Service) -> None:
    choice = b'"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]'
    error = b'data: {"id": "1", "created": 1, "model": "m", "object": "chat.completion.chunk", "error": {"code": 502, "message": "Gone"}, '
    answer = ask(service, OPENROUTER, OPENROUTER.sending([OPENROUTER.words("Half"), error + choice + b"}\n\n"]))
    assert answer.text == "Half"
    assert answer.failure == "The service ended the answer with an error."


@pytest.mark.parametrize("drop", [True, False])
def test_a_dropped_connection_keeps_what_was_said_and_an_estimate_of_its_cost(service: Service, protocol: Protocol, drop: bool) -> None:
    answer = ask(service, protocol, protocol.sending([protocol.words("Half of it")], drop=drop))
    assert (answer.text, answer.failure, answer.ended) == ("Half of it", BROKE_OFF, False)
    assert answer.usage is not None
    assert answer.usage["estimated"]
    assert answer.usage["output_tokens"] > 0


def test_a_service_that_is_not_there_is_one_sentence(protocol: Protocol, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as gone:
        for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENROUTER_API_BASE", "OLLAMA_HOST"):
            monkeypatch.setenv(name, gone.url)
    failure = hear(get_llm(protocol.spec, timeout=PATIENCE), [HumanMessage("hi")], threading.Event()).failure
    assert failure.startswith("The service cannot be reached: ")
    assert "\n" not in failure


def test_a_stream_that_stalls_is_given_up(service: Service, protocol: Protocol) -> None:
    answer = ask(service, protocol, protocol.sending([protocol.words("Well"), service.stall]), timeout=1.5)
    assert (answer.text, answer.failure) == ("Well", "The model has given no sign for 1.5 s, so the answer was given up.")
    assert service.left.wait(PATIENCE), "the connection is closed"


def test_signs_of_life_between_words_are_no_stall(service: Service) -> None:
    alive = [piece for _ in range(12) for piece in (b": OPENROUTER PROCESSING\n\n", lambda: time.sleep(0.25))]
    answer = ask(service, OPENROUTER, OPENROUTER.sending([*alive, OPENROUTER.words("So."), *OPENROUTER.end]), timeout=2)
    assert (answer.text, answer.failure) == ("So.", "")


@pytest.mark.parametrize("silent", ["before", "between"])
def test_a_stop_closes_the_connection_though_nothing_comes(service: Service, protocol: Protocol, silent: str) -> None:
    cancelled = threading.Event()
    begin = [] if silent == "before" else [protocol.words("Well")]
    service.replies = [protocol.sending([*begin, cancelled.set, service.stall])]
    answer = hear(get_llm(protocol.spec, timeout=600), [HumanMessage("hi")], cancelled)
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
def test_garbage_is_one_sentence(service: Service, protocol: Protocol, pieces: list[bytes]) -> None:
    answer = ask(service, protocol, Reply(pieces, headers={"content-type": protocol.content}))
    assert answer.text == ""
    assert answer.failure
    assert "\n" not in answer.failure
    assert len(answer.failure) < 400


def test_a_page_in_the_place_of_an_answer_is_one_sentence(service: Service, protocol: Protocol) -> None:
    answer = ask(service, protocol, Reply([b"<html>Log in here</html>"], headers={"content-type": "text/html"}))
    assert answer.failure == "What the service sent is not an answer of a model."


def test_a_word_of_two_million_characters_comes_whole(service: Service, protocol: Protocol) -> None:
    answer = ask(service, protocol, protocol.reply("x" * 2_000_000, "y"))
    assert len(answer.text) == 2_000_001
    assert answer.ended


def test_many_threads_ask_one_model_at_once(service: Service, protocol: Protocol) -> None:
    service.replies = [protocol.reply("Hello ", "there")]
    llm = get_llm(protocol.spec, timeout=PATIENCE)
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(str(llm.invoke("hi").text))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["Hello there"] * 8


def test_asking_again_is_left_to_the_caller(service: Service, protocol: Protocol) -> None:
    service.replies = [refusing(429, "Later.", kind="x", plain=protocol is OLLAMA)]
    with pytest.raises(ModelBusy):
        get_llm(protocol.spec).invoke("hi")
    assert len(service.asked) == 1


def test_a_service_at_a_base_url_is_not_sent_the_key_of_openai(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_BASE")
    service.replies = [OPENAI.reply("Hello")]
    answer = hear(get_llm("openai:our-own", base_url=f"{service.url}/v1"), [HumanMessage("hi")], threading.Event())
    assert answer.text == "Hello"
    assert service.asked[0]["model"] == "our-own"
    assert "no-secret" not in str(service.headers)
    assert answer.usage is not None
    assert answer.usage["cost"] == 0, "nobody is paid for what runs here"
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "of-our-own")
    hear(get_llm("openai:our-own", base_url=f"{service.url}/v1"), [HumanMessage("hi")], threading.Event())
    assert service.headers[1]["authorization"] == "Bearer of-our-own"


def test_the_key_of_an_answer_is_that_of_its_provider(service: Service, protocol: Protocol) -> None:
    ask(service, protocol, protocol.reply("Hello"))
    assert ("no-secret" in str(service.headers)) == bool(get_key(protocol))


def test_with_tools_it_is_still_known_what_it_costs_and_reads(service: Service, protocol: Protocol) -> None:
    def find(words: str) -> str:
        """Find words."""
        return words

    llm = get_llm(protocol.spec)
    bound: Any = llm.bind_tools([find])
    assert (model_name(bound), priced_as(bound), room_of(bound)) == (model_name(llm), priced_as(llm), room_of(llm))
    assert worst_cost(bound, ["hi"]) == worst_cost(llm, ["hi"])
    service.replies = [protocol.reply("Hello")]
    assert hear(bound, [HumanMessage("hi")], threading.Event()).text == "Hello"


def test_a_bounded_answer_asks_for_no_more_tokens(service: Service, protocol: Protocol) -> None:
    service.replies = [protocol.reply("Hello")]
    get_llm(protocol.spec, max_tokens=321).invoke("hi")
    body = service.asked[0]
    assert 321 in (body.get("max_tokens"), body.get("max_completion_tokens"), body.get("options", {}).get("num_predict"))


def test_a_tool_is_bound_as_the_package_has_it(service: Service, protocol: Protocol) -> None:
    def find(words: str) -> str:
        """Find words."""
        return words

    service.replies = [protocol.reply("Hello")]
    get_llm(protocol.spec).bind_tools([find]).invoke("hi")
    assert "find" in str(service.asked[0]["tools"])


def test_an_address_that_is_none_is_one_sentence() -> None:
    failure = hear(get_llm("openai:x", base_url="http://[broken"), [HumanMessage("hi")], threading.Event()).failure
    assert failure.startswith("The service cannot be reached: ")


def test_a_price_that_nobody_knows_is_none(service: Service) -> None:
    service.replies = [Reply([piece.replace(b"gpt-4o", b"our-own-model") for piece in OPENAI.end if piece], headers={"content-type": OPENAI.content})]
    usage = hear(get_llm("openai:our-own-model"), [HumanMessage("hi")], threading.Event()).usage
    assert usage is not None
    assert usage["cost"] is None


def test_a_model_without_its_error_classes_raises_sentences(service: Service) -> None:
    service.replies = [refusing(401, "Incorrect API key provided.")]
    with pytest.raises(ModelError, match=r"The key is not accepted: Incorrect API key provided\. Check OPENAI_API_KEY\."):
        get_llm(OPENAI.spec).invoke("hi")


def test_a_service_that_says_too_long_is_asked_once_more_with_less(service: Service, protocol: Protocol, tmp_path: Path) -> None:
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
