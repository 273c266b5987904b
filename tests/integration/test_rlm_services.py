"""Searches over services by our own client, and by the caller's clients of OpenAI and Anthropic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.llm.base import ModelError
from mahtab_tui.search import gates
from mahtab_tui.search.api import Searcher, rlm
from mahtab_tui.search.chosen_models import ChosenModels
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.search.search import Search
from mahtab_tui.search.search_answers import CancelToken
from mahtab_tui.worker.rlm.search import SearchFailed
from tests import tags
from tests.integration.asking import PATIENCE
from tests.integration.scripted_searches import LOG, python, run_program
from tests.integration.sessions import OpenSession
from tests.recursion_scripts import SearchEvents
from tests.services import ANTHROPIC, OPENAI, Protocol, Reply, Service, refusing, serving

FINAL = python("FINAL(len(context))")
LENGTH = str(len(LOG))


def address(service: Service, protocol: Protocol) -> str:
    return service.url if protocol is ANTHROPIC else f"{service.url}/v1"


def loaded_by(options: str) -> str:
    program = f"""
import sys
import mahtab_tui
print(mahtab_tui.rlm("how long?", "x" * 100_000, {options}))
heavy = ("langchain", "pydantic", "genai_prices", "httpx", "openai", "anthropic")
print([name for name in sys.modules if name.startswith(heavy)])
"""
    return run_program(program)


@pytest.mark.parametrize("protocol", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_search_over_a_service_loads_no_model_library(protocol: Protocol) -> None:
    with serving() as service:
        service.replies = [protocol.reply(FINAL)]
        where = f"base_url={address(service, protocol)!r}, api_key='k', max_usd=1"
        assert loaded_by(f"model={protocol.spec!r}, {where}") == "100000\n[]\n"


def test_replayed_search_loads_no_model_library(tmp_path: Path) -> None:
    path = tmp_path / "replay.jsonl"
    path.write_text(json.dumps({"text": FINAL, "tokens_per_second": 1_000}) + "\n")
    assert loaded_by(f"model='replay:{path}', max_usd=1") == "100000\n[]\n"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("anthropic:m", "/v1/messages"),
        ("openai:m", "/v1/chat/completions"),
        ("openrouter:m", "/v1/chat/completions"),
        ("vllm:m", "/v1/chat/completions"),
    ],
)
@pytest.mark.parametrize("key", ["of-the-call", None])
def test_address_gets_no_other_key_than_its_own(
    service: Service, spec: str, path: str, key: str | None
) -> None:
    with serving() as other_service:
        other_service.replies = [(ANTHROPIC if "anthropic" in spec else OPENAI).reply(FINAL)]
        assert rlm("?", LOG, model=spec, base_url=f"{other_service.url}/v1", api_key=key) == LENGTH
        assert other_service.paths == [path]
        assert ("of-the-call" in str(other_service.headers)) == (key is not None)
        assert "no-secret" not in str(other_service.headers)
    assert not service.asked


def test_key_of_the_call_replaces_that_of_the_environment(service: Service) -> None:
    service.replies = [OPENAI.reply(FINAL)]
    assert rlm("?", LOG, model=OPENAI.spec, api_key="of-the-call") == LENGTH
    assert service.headers[0]["authorization"] == "Bearer of-the-call"


def test_sub_model_of_another_provider_gets_neither_address_nor_key(service: Service) -> None:
    service.replies = [ANTHROPIC.reply("six")]
    with serving() as other_service:
        other_service.replies = [OPENAI.reply(python("FINAL(llm('read', context[:9]))"))]
        access: dict[str, Any] = {"base_url": f"{other_service.url}/v1", "api_key": "of-the-call"}
        answer = rlm("?", LOG, model="openai:m", sub_model=ANTHROPIC.spec, **access)
    assert answer == "six"
    assert "of-the-call" not in str(service.headers)
    assert service.headers[0]["x-api-key"] == "no-secret"


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (lambda messages: FINAL, "A model of the type function takes no base_url and api_key"),
        ("demo", "demo takes no base_url and api_key"),
        ("vllm", "Name a model as well, as in vllm:NAME"),
    ],
)
def test_address_is_only_for_models_of_services(model: Any, error: str) -> None:
    with pytest.raises(ModelError, match=error):
        rlm("?", LOG, model=model, base_url="http://127.0.0.1:1")
    with pytest.raises(ValueError, match="base_url must be a text"):
        rlm("?", LOG, model=model, base_url=7)  # type: ignore[arg-type]


def test_anthropic_search_reports_usage_and_retries(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "_FIRST_PAUSE_S", 0.01)
    wait = {"retry-after": "0.02"}
    overloaded = refusing(529, "Overloaded", kind="overloaded_error", headers=wait)
    service.replies = [overloaded, ANTHROPIC.reply("Well.\n", FINAL)]
    search_events = SearchEvents()
    answer = rlm("?", LOG, model=ANTHROPIC.spec, max_usd=9, on_event=search_events.append)
    assert (answer, answer.usage.calls, answer.usage.tokens) == (LENGTH, 1, 1_100)
    assert answer.usage.usd > 0
    assert [
        pause.attrs["seconds"]
        for pause in search_events.of(tags.RLM_CALL)
        if "seconds" in pause.attrs
    ]
    sent = service.asked[1]
    assert (sent["messages"][0]["role"], sent["stream"]) == ("user", True)
    assert "Python" in sent["system"]


def test_refused_and_cut_answers_are_understood(service: Service) -> None:
    refused = [piece.replace(b"end_turn", b"refusal") for piece in ANTHROPIC.end]
    service.replies = [ANTHROPIC.sending([ANTHROPIC.words("No"), *refused])]
    search_events = SearchEvents()
    with pytest.raises(SearchFailed, match="safeguards stopped the answer"):
        rlm("?", LOG, model=ANTHROPIC.spec, on_event=search_events.append)
    assert search_events.of(tags.USAGE)[0].attrs["input_tokens"] == 1_000, "as reported"
    service.replies = [ANTHROPIC.sending([ANTHROPIC.words("It is"), *ANTHROPIC.cut])]
    answer = rlm("?", "short", model=ANTHROPIC.spec)
    assert (answer, answer.state) == ("It is", "partial")


def test_stopped_search_closes_its_connection(service: Service) -> None:
    caller = CancelToken()
    service.replies = [OPENAI.sending([OPENAI.words("Well"), caller.stop, service.stall])]
    search = Search(lambda record: None)
    try:
        assert search.run("?", LOG, model=OPENAI.spec, cancel_token=caller).state == "stopped"
        assert service.left.wait(PATIENCE)
    finally:
        search.close()


def test_search_uses_langchain_if_that_sends_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    def kind() -> str:
        models = ChosenModels(dict, Secrets(), lambda level, text: None)
        return type(models.get("vllm:m", SearchLimits(), {})).__name__

    assert kind() == "ServiceModel"
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    assert kind() == "ChatModel"


# The caller's own clients


def whole(protocol: Protocol, text: str, reason: str = "") -> Reply:
    if protocol is ANTHROPIC:
        usage = {"input_tokens": 1_000, "output_tokens": 100}
        answer: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
        answer |= {"content": [{"type": "text", "text": text}], "usage": usage}
        answer |= {"stop_reason": reason or "end_turn", "stop_sequence": None}
    else:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": reason or "stop"}
        usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
        answer |= {"choices": [choice], "usage": usage}
    return Reply([json.dumps(answer).encode()], headers={"content-type": "application/json"})


def client(name: str, service: Service) -> tuple[Any, Protocol]:
    if "OpenAI" in name:
        import openai

        options = {"base_url": f"{service.url}/v1", "api_key": "k", "max_retries": 0}
        return getattr(openai, name)(**options), OPENAI
    import anthropic

    return getattr(anthropic, name)(base_url=service.url, api_key="k", max_retries=0), ANTHROPIC


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic"])
def test_client_with_a_models_name_is_a_model(service: Service, name: str) -> None:
    service_client, protocol = client(name, service)
    service.replies = [whole(protocol, python("print(1)")), whole(protocol, FINAL)]
    with Searcher(model=(service_client, "m"), temperature=0.5, max_usd=1) as searcher:
        for _ in range(2):
            answer = searcher.rlm("?", LOG)
    assert answer == LENGTH
    assert answer.usage.tokens == 1_100
    assert answer.usage.usd == 0, "local models cost nothing"
    assert answer.tree is not None
    assert answer.tree.model == "m"
    sent = service.asked[0]
    assert (sent["model"], sent["temperature"]) == ("m", 0.5)
    roles = ["user"] if protocol is ANTHROPIC else ["system", "user"]
    assert [message["role"] for message in sent["messages"]] == roles


@pytest.mark.parametrize("name", ["OpenAI", "Anthropic"])
def test_failure_and_token_limit_of_a_client_are_recognized(service: Service, name: str) -> None:
    service_client, protocol = client(name, service)
    service.replies = [refusing(401, "No such key.")]
    with pytest.raises(SearchFailed, match=r"^The key was not accepted: .*No such key\.$"):
        rlm("?", LOG, model=(service_client, "m"))
    cut = "max_tokens" if protocol is ANTHROPIC else "length"
    service.replies = [whole(protocol, "It is", cut)]
    assert rlm("?", "short", model=(service_client, "m")).state == "partial"


def test_client_needs_a_models_name(service: Service) -> None:
    service_client, _ = client("OpenAI", service)
    wrong: list[tuple[Any, str]] = [
        (service_client, "Name the model as well"),
        ((service_client,), "A tuple as the model must be"),
        ((service_client, ""), "A tuple as the model must be"),
        (("x", "m"), "A tuple as the model must be"),
    ]
    for model, error in wrong:
        with pytest.raises(ModelError, match=error):
            rlm("?", LOG, model=model)
    service_client, _ = client("Anthropic", service)
    with pytest.raises(ModelError, match="m takes no seed"):
        rlm("?", LOG, model=(service_client, "m"), seed=1)


def test_cell_may_name_a_service(open_session: OpenSession, service: Service) -> None:
    service.replies = [OPENAI.reply(FINAL)]
    it = open_session()
    call = f"rlm('?', 'x' * 30_000, model='openai:m', base_url='{service.url}/v1', api_key='k-1')"
    it.session.submit("python", call)
    assert it.store.wait(tags.USER_REPL_OUT, cell=1).text == "30000\n"
    assert service.headers[0]["authorization"] == "Bearer k-1"
