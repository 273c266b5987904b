"""Models of providers, over services on this machine that speak their streaming protocols."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from mahtab_tui.agent import create_repl_agent
from mahtab_tui.agent.model_calls import read_answer
from mahtab_tui.llm.base import ModelBusy
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.llm.usage import input_limit, model_name, priced_as, worst_cost
from tests import tags
from tests.agents import Desk
from tests.integration.asking import PATIENCE, ask
from tests.services import (
    ANTHROPIC,
    OLLAMA,
    OPENAI,
    OPENROUTER,
    PROTOCOLS,
    Protocol,
    Reply,
    Service,
    _delta,
    _event,
    _line,
    refusing,
)


def test_answer_streams_token_by_token(service: Service, protocol: Protocol) -> None:
    """The service goes on only when each word has been seen."""
    seen: list[str | None] = []
    arrived = threading.Semaphore(0)

    def wait() -> None:
        assert arrived.acquire(timeout=PATIENCE)

    words = protocol.words
    service.replies = [
        protocol.sending(
            [words("It "), wait, words("is "), wait, words("so."), wait, *protocol.end]
        )
    ]

    def see(token: str | None) -> None:
        seen.append(token)
        arrived.release()

    answer = read_answer(
        get_llm(protocol.spec, timeout=PATIENCE), [HumanMessage("hi")], threading.Event(), see
    )
    assert seen == ["It ", "is ", "so."]
    assert (answer.text, answer.ended) == ("It is so.", True)


def test_usage_and_cost_are_reported(service: Service, protocol: Protocol) -> None:
    usage = ask(service, protocol, protocol.reply("Hello")).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (1000, 100)
    assert usage.model == protocol.spec.partition(":")[2]
    if protocol is OPENROUTER:
        assert usage.cost == 0.0123, "as OpenRouter itself tells it"
    elif protocol is OLLAMA:
        assert usage.cost == 0
    else:
        assert usage.cost is not None
        assert usage.cost > 0
    assert not usage.estimated


def test_cumulative_counts_of_anthropic_are_counted_once(service: Service) -> None:
    (_, counts, _) = ANTHROPIC.end
    usage = ask(
        service,
        ANTHROPIC,
        ANTHROPIC.sending([ANTHROPIC.words("Hello"), counts, counts, *ANTHROPIC.end]),
    ).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (1000, 100, 400)


THOUGHTS = {
    "anthropic": _event(
        "content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "Let me "}
    ),
    "openai": _delta("gpt-4o", reasoning_content="Let me "),
    "openrouter": _delta("m", reasoning="Let me "),
    "ollama": _line(
        message={"role": "assistant", "content": "", "thinking": "Let me "}, done=False
    ),
}


def test_thoughts_are_shown_and_not_sent_again(
    service: Service, protocol: Protocol, tmp_path: Path
) -> None:
    thought = next(piece for name, piece in THOUGHTS.items() if PROTOCOLS[name] is protocol)
    answer = [thought, thought, protocol.words("```python\n1 + 1\n```"), *protocol.end]
    service.replies = [protocol.sending(answer), protocol.reply("Two.")]
    desk = Desk(tmp_path)
    agent = create_repl_agent(desk.host, get_llm(protocol.spec))
    try:
        assert agent.ask_sync("How many?") == "Two."
    finally:
        desk.session.close()
    shown = [
        (record.tag, record.text)
        for record in desk.records
        if record.tag in (tags.ASSISTANT_THOUGHT, tags.ASSISTANT_THOUGHT_STREAM)
    ]
    pieces = (tags.ASSISTANT_THOUGHT_STREAM, "Let me ")
    assert shown == [pieces, pieces, (tags.ASSISTANT_THOUGHT, "Let me Let me ")]
    assert len(service.asked) == 2
    assert "Let me" not in str(service.asked[1]["messages"])


def test_answer_at_the_token_limit_is_cut(service: Service, protocol: Protocol) -> None:
    assert ask(service, protocol, protocol.sending([protocol.words("It is"), *protocol.cut])).cut


def test_truncated_answer_gives_a_warning(
    service: Service, protocol: Protocol, tmp_path: Path
) -> None:
    service.replies = [protocol.sending([protocol.words("It is"), *protocol.cut])]
    desk = Desk(tmp_path)
    try:
        assert create_repl_agent(desk.host, get_llm(protocol.spec)).ask_sync("What?") == "It is"
    finally:
        desk.session.close()
    assert desk.notices("warning") == [
        "The answer was cut off: it reached the model's token limit."
    ]


def test_many_threads_can_ask_one_model_at_once(service: Service, protocol: Protocol) -> None:
    service.replies = [protocol.reply("Hello ", "there")]
    llm = get_llm(protocol.spec, timeout=PATIENCE)
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(str(llm.invoke("hi").text)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["Hello there"] * 8


def test_retrying_is_left_to_the_caller(service: Service, protocol: Protocol) -> None:
    service.replies = [refusing(429, "Later.", kind="x", plain=protocol is OLLAMA)]
    with pytest.raises(ModelBusy):
        get_llm(protocol.spec).invoke("hi")
    assert len(service.asked) == 1


def test_service_at_a_base_url_does_not_receive_the_openai_key(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_BASE")
    service.replies = [OPENAI.reply("Hello")]
    answer = read_answer(
        get_llm("openai:our-own", base_url=f"{service.url}/v1"),
        [HumanMessage("hi")],
        threading.Event(),
    )
    assert answer.text == "Hello"
    assert service.asked[0]["model"] == "our-own"
    assert "no-secret" not in str(service.headers)
    assert answer.usage is not None
    assert answer.usage.cost == 0, "nobody is paid for what runs here"
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "of-our-own")
    read_answer(
        get_llm("openai:our-own", base_url=f"{service.url}/v1"),
        [HumanMessage("hi")],
        threading.Event(),
    )
    assert service.headers[1]["authorization"] == "Bearer of-our-own"


def test_each_answer_uses_the_key_of_its_provider(service: Service, protocol: Protocol) -> None:
    ask(service, protocol, protocol.reply("Hello"))
    assert ("no-secret" in str(service.headers)) == (protocol is not OLLAMA)


def test_cost_and_context_size_are_known_with_tools_too(
    service: Service, protocol: Protocol
) -> None:
    def find(words: str) -> str:
        """Find words."""
        return words

    llm = get_llm(protocol.spec)
    bound: Any = llm.bind_tools([find])
    assert (model_name(bound), priced_as(bound), input_limit(bound)) == (
        model_name(llm),
        priced_as(llm),
        input_limit(llm),
    )
    assert worst_cost(bound, ["hi"]) == worst_cost(llm, ["hi"])
    service.replies = [protocol.reply("Hello")]
    assert read_answer(bound, [HumanMessage("hi")], threading.Event()).text == "Hello"


def test_a_bounded_answer_asks_for_no_more_tokens(service: Service, protocol: Protocol) -> None:
    service.replies = [protocol.reply("Hello")]
    get_llm(protocol.spec, max_tokens=321).invoke("hi")
    body = service.asked[0]
    assert 321 in (
        body.get("max_tokens"),
        body.get("max_completion_tokens"),
        body.get("options", {}).get("num_predict"),
    )


def test_tool_is_bound_in_the_packages_format(service: Service, protocol: Protocol) -> None:
    def find(words: str) -> str:
        """Find words."""
        return words

    service.replies = [protocol.reply("Hello")]
    get_llm(protocol.spec).bind_tools([find]).invoke("hi")
    assert "find" in str(service.asked[0]["tools"])


def test_unknown_price_is_none(service: Service) -> None:
    service.replies = [
        Reply(
            [piece.replace(b"gpt-4o", b"our-own-model") for piece in OPENAI.end if piece],
            headers={"content-type": OPENAI.content},
        )
    ]
    usage = read_answer(
        get_llm("openai:our-own-model"), [HumanMessage("hi")], threading.Event()
    ).usage
    assert usage is not None
    assert usage.cost is None
