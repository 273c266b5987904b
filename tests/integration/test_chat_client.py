"""The client of chat models, without LangChain, over services that behave well and badly."""

from __future__ import annotations

import codecs
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from mahtab_tui.llm import event_streams, server_facts
from mahtab_tui.llm.answer_metadata import cut_note, is_cut
from mahtab_tui.llm.base import ModelError, Stoppable
from mahtab_tui.llm.chat_answers import AnswerEnd, ChatChunk, Dialect, TokenUsage, join_waiting
from mahtab_tui.llm.chat_client import ChatClient
from mahtab_tui.llm.chat_service import ChatService
from mahtab_tui.llm.context_window import context_window
from mahtab_tui.llm.providers import get_llm
from mahtab_tui.llm.sampling import with_sampling
from mahtab_tui.llm.server_facts import ServerFacts
from tests.agents import read
from tests.integration.asking import PATIENCE
from tests.services import (
    ANTHROPIC,
    OLLAMA,
    OPENAI,
    OPENROUTER,
    Piece,
    Protocol,
    Reply,
    Service,
    _data,
    _delta,
    _line,
    serving,
)

QUESTION = [{"role": "user", "content": "hi"}]
TOOL = {
    "type": "function",
    "function": {"name": "find", "parameters": {"type": "object", "properties": {}}},
}
NOT_AN_ANSWER = "The service sent something that is not a model's answer."

NOTHING_HERE = Reply([b'{"detail": "Not Found"}'], 404, {"content-type": "application/json"})

GONE = "The model could not answer: Gone."

PROPS = {"default_generation_settings": {"n_ctx": 2048}, "modalities": {"vision": True}}
LM_STUDIO = {"id": "m", "type": "llm", "max_context_length": 99, "loaded_context_length": 9}
TWO_MODELS = [{"id": "x", "max_model_len": 1}, {"id": "y", "max_model_len": 2}]


def client(service: Service, dialect: Dialect = "compatible", **options: Any) -> ChatClient:
    address = service.url if dialect == "ollama" else f"{service.url}/v1"
    return ChatClient(dialect, address, "m", **{"timeout": PATIENCE, **options})


def answer(it: ChatClient, **options: Any) -> list[ChatChunk]:
    return [chunk for chunk in it.stream(QUESTION, **options) if any(chunk)]


def document(text: bytes, status: int = 200) -> Reply:
    return Reply([text], status, {"content-type": "application/json; charset=utf-8"})


def text(chunks: list[ChatChunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


def calls(chunks: list[ChatChunk]) -> dict[int, tuple[str, str, str]]:
    joined_calls: dict[int, tuple[str, str, str]] = {}
    for piece in (call for chunk in chunks for call in chunk.calls):
        id, name, arguments = joined_calls.get(piece.number, ("", "", ""))
        id = id + (piece.id or "")
        name = name + (piece.name or "")
        joined_calls[piece.number] = id, name, arguments + piece.arguments
    return joined_calls


def delta(**fields: Any) -> bytes:
    return _delta("m", **fields)


def call(arguments: object, **fields: Any) -> dict[str, Any]:
    """A piece of a call of `find`."""
    return {**fields, "function": {"name": "find", "arguments": arguments}}


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_events_may_be_split_anywhere_with_comments_and_several_lines(
    service: Service, end: bytes
) -> None:
    event = [b'data: {"choices":', b'data:  [{"delta": {"content": "Gr\xc3\xbc\xc3\x9fe"}}]}']
    lines = [b": alive", b"", b"event: x", *event, b"id: 7", b""]
    stream = end.join([*lines, *b"".join(OPENAI.end).split(b"\n")])
    service.replies = [OPENAI.sending([stream[at : at + 1] for at in range(len(stream))])]
    assert text(answer(client(service))) == "Grüße"


def test_thoughts_are_not_part_of_the_text(service: Service) -> None:
    thoughts = [delta(reasoning_content="Let "), delta(reasoning="me ", reasoning_content=None)]
    service.replies = [OPENAI.sending([*thoughts, delta(content="So."), *OPENAI.end])]
    chunks = answer(client(service))
    assert (text(chunks), "".join(chunk.reasoning for chunk in chunks)) == ("So.", "Let me ")
    message = {"role": "assistant", "content": "", "thinking": "Let me "}
    thinking = _line(message=message, done=False)
    service.replies = [OLLAMA.sending([thinking, OLLAMA.words("So."), *OLLAMA.end])]
    reply = get_llm(OLLAMA.spec).invoke("hi")
    assert (reply.text, reply.additional_kwargs) == ("So.", {"reasoning_content": "Let me "})


@pytest.mark.parametrize(
    "deltas",
    [
        [call('{"x"', index=0, id="a"), {"index": 0, "function": {"arguments": ": 1}"}}],
        [call(part, index=0, id="a") for part in ('{"x"', ": 1}")],
        [call('{"x"', id="a"), {"function": {"arguments": ": 1}"}}],
        [call({"x": 1}, id="a")],
    ],
    ids=["as OpenAI", "all repeated", "not numbered", "not in pieces"],
)
def test_split_tool_calls_are_joined(service: Service, deltas: list[dict[str, Any]]) -> None:
    pieces = [delta(tool_calls=[tool_call]) for tool_call in deltas]
    service.replies = [OPENAI.sending([*pieces, *OPENAI.end])]
    assert calls(answer(client(service), tools=[TOOL])) == {0: ("a", "find", '{"x": 1}')}


def test_calls_all_numbered_0_stay_separate(service: Service) -> None:
    both = [delta(tool_calls=[call("{}", index=0, id=name)]) for name in "ab"]
    service.replies = [OPENAI.sending([*both, *OPENAI.end])]
    joined_calls = calls(answer(client(service), tools=[TOOL]))
    assert joined_calls == {0: ("a", "find", "{}"), 1: ("b", "find", "{}")}


def test_thoughts_are_returned_with_the_calls_they_led_to(service: Service) -> None:
    pieces = [
        {"type": "reasoning.text", "index": 0, "text": "Let ", "id": "rs_1"},
        {"type": "reasoning.text", "index": 0, "text": "me", "signature": "s"},
    ]
    begin = [delta(reasoning=piece["text"], reasoning_details=[piece]) for piece in pieces]
    called = delta(tool_calls=[call("{}", index=0, id="a")])
    service.replies = [
        OPENROUTER.sending([*begin, called, *OPENROUTER.end]),
        OPENROUTER.reply("Done."),
    ]
    llm = get_llm(OPENROUTER.spec)
    first_answer = llm.invoke("hi", tools=[TOOL])
    assert isinstance(first_answer, AIMessage)
    llm.invoke([HumanMessage("hi"), first_answer, ToolMessage("it", tool_call_id="a")])
    thought = {"type": "reasoning.text", "index": 0, "text": "Let me", "signature": "s"}
    tool_call = call("{}", id="a", type="function")
    sent = {
        "role": "assistant",
        "content": "",
        "tool_calls": [tool_call],
        "reasoning_details": [thought],
    }
    result = {"role": "tool", "content": "it", "tool_call_id": "a"}
    assert service.asked[1]["messages"][1:] == [sent, result]


def used(written: object, cached: int | None = None, read: int = 9) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"usage": {"prompt_tokens": read, "completion_tokens": written, **details}}


@pytest.mark.parametrize(
    ("reported_usages", "expected"),
    [
        ([used(2, 5)], (9, 2, 5)),
        ([used(1), used(2), used(3)], (9, 3, 0)),
        ([{**used(2), "timings": {"cache_n": 7}}], (9, 2, 7)),
        ([used(2, 99)], (9, 2, 9)),
        ([used("2", read=-9)], None),
        ([{"usage": [1]}], None),
    ],
    ids=["cached", "counted again and again", "llama.cpp", "too many", "no numbers", "nothing"],
)
def test_usage_is_counted_once(
    service: Service, reported_usages: list[dict[str, Any]], expected: tuple[int, int, int] | None
) -> None:
    counts = [_data("m", choices=[], **usage_fields) for usage_fields in reported_usages]
    last_pieces = [counts[0], delta(reason="stop"), *counts[1:], b"data: [DONE]\n\n"]
    service.replies = [OPENAI.sending([OPENAI.words("So."), *last_pieces])]
    end = answer(client(service))[-1].end
    assert end is not None
    assert end.usage == (None if expected is None else TokenUsage(*expected))
    assert (end.model, end.reason) == ("m", "stop")


def test_options_of_a_call_are_sent(service: Service) -> None:
    options = {"temperature": 0.7, "top_p": 0.9, "seed": 1, "stop": ["x"]}
    service.replies = [OPENAI.reply("So.")]
    answer(client(service), **options, max_tokens=5, tools=[TOOL], tool_choice="none")
    sent = service.asked[0]
    call_options = {"max_tokens": 5, "tools": [TOOL], "tool_choice": "none", "stream": True}
    assert (options | call_options).items() <= sent.items()
    service.replies = [OLLAMA.reply("So.")]
    answer(client(service, "ollama"), **options, max_tokens=5, tools=[TOOL], tool_choice="none")
    assert service.asked[1]["options"] == {**options, "num_predict": 5}
    assert "tools" not in service.asked[1]
    answer(client(service, "ollama"), tools=[TOOL])
    assert service.asked[2]["tools"] == [TOOL]


def test_sampling_is_set_by_fields_and_by_each_call(service: Service, protocol: Protocol) -> None:
    service.replies = [protocol.reply("So.")]
    seed = {} if protocol is ANTHROPIC else {"seed": 3}
    llm = with_sampling(get_llm(protocol.spec), protocol.spec, {"temperature": 0.25, **seed})
    llm.invoke("hi", temperature=0.5, tool_choice="any", tools=[TOOL])
    sent = service.asked[0].get("options", service.asked[0])
    assert {"temperature": 0.5, **seed}.items() <= sent.items()
    assert "top_p" not in sent
    choice = {"type": "any"} if protocol is ANTHROPIC else "required"
    assert protocol is OLLAMA or service.asked[0]["tool_choice"] == choice


def test_open_connections_are_reused(service: Service) -> None:
    service.replies = [OPENAI.reply("So.")]
    it = client(service)
    assert [text(answer(it)) for _ in range(3)] == ["So."] * 3
    assert len(service.connections) == 1
    ((connection, _),) = it._service._idle
    connection.sock.shutdown(socket.SHUT_RDWR)
    assert text(answer(it)) == "So."
    assert len(service.connections) == 2
    service.replies = [OPENAI.sending([OPENAI.words("Half")])]
    with pytest.raises(ModelError, match="broke off"):
        answer(it)
    assert not it._service._idle


@pytest.mark.parametrize("when", ["before the answer", "within the answer"])
def test_a_stop_from_another_thread_ends_the_stream_and_the_connection(
    service: Service, when: str
) -> None:
    llm = get_llm(OPENAI.spec, timeout=600)
    assert isinstance(llm, Stoppable)
    arrived = threading.Event()

    def stop() -> None:
        arrived.wait(PATIENCE)
        llm.stop()

    begin: list[Piece] = [] if when.startswith("before") else [OPENAI.words("Well")]
    reply = Reply([*begin, stop, service.stall], headers={"content-type": OPENAI.content})
    service.replies = [reply]
    words = []
    for chunk in llm.stream("hi"):
        words.append(str(chunk.text))
        if words[-1] or not begin:
            arrived.set()
    assert "".join(words) == ("Well" if begin else "")
    assert service.left.wait(PATIENCE)
    service.replies = [OPENAI.reply("So.")]
    assert llm.invoke("hi").text == "So.", "it can be used again"


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def test_unresponsive_server_is_given_up(silent: str) -> None:
    sentence = r"^The model has not responded for 0\.3 s, so the answer was abandoned\.$"
    with pytest.raises(ModelError, match=sentence):
        answer(ChatClient("compatible", silent, "m", timeout=0.3))


def test_waiting_for_an_unresponsive_server_can_be_stopped(silent: str) -> None:
    it = ChatClient("compatible", silent, "m", timeout=600)
    stream = it.stream(QUESTION)
    assert next(stream) == ChatChunk(), "a sign that time passes"
    threading.Thread(target=it.stop).start()
    assert not [chunk for chunk in stream if any(chunk)]


def test_huge_lines_are_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "MAX_LINE_BYTES", 200_000)
    for pieces in ([b"x" * 50_000] * 9, [b"data: " + b"x" * 50_000 + b"\n"] * 9):
        service.replies = [
            Reply([*pieces, service.stall], headers={"content-type": OPENAI.content})
        ]
        with pytest.raises(ModelError, match=NOT_AN_ANSWER):
            answer(client(service))


ENDING = delta(content="So.") + _delta("m", "stop") + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "skipped",
    [
        b"data:\n\n",
        b"data: \n\ndata:\ndata:\n\n",
        b"event: ping\nid: 7\nretry: 9\n\n",
        b": alive\n\n",
        b'data: {"choices": null}\n\n',
        b'data: {"choices": [null]}\n\n',
        b'data: {"choices": [{"delta": null}], "usage": null}\n\n',
    ],
)
def test_events_that_say_nothing_are_skipped(service: Service, skipped: bytes) -> None:
    service.replies = [OPENAI.sending([skipped, ENDING, skipped])]
    assert text(answer(client(service))) == "So."


@pytest.mark.parametrize("end", [b"\r", b"\r\n"], ids=["cr", "crlf"])
def test_lines_of_events_may_end_with_carriage_returns(service: Service, end: bytes) -> None:
    stream = ENDING.replace(b"\n", end)
    for pieces in ([stream], [stream[at : at + 1] for at in range(len(stream))]):
        service.replies = [Reply(pieces, headers={"content-type": OPENAI.content})]
        assert text(answer(client(service))) == "So."


def test_a_stream_may_begin_with_a_byte_order_mark(service: Service) -> None:
    service.replies = [Reply([codecs.BOM_UTF8, ENDING], headers={"content-type": OPENAI.content})]
    assert text(answer(client(service))) == "So."


@pytest.mark.parametrize("dialect", ["compatible", "openai"])
def test_an_address_without_v1_is_tried_with_it_once(service: Service, dialect: Dialect) -> None:
    service.replies = [NOTHING_HERE, OPENAI.reply("So."), OPENAI.reply("Yes.")]
    notices: list[tuple[str, str]] = []
    chat_client = ChatClient(
        dialect,
        service.url,
        "m",
        timeout=PATIENCE,
        on_notice=lambda level, sentence: notices.append((level, sentence)),
    )
    assert text(answer(chat_client)) == "So."
    assert text(answer(chat_client)) == "Yes."
    assert service.paths == ["/chat/completions", *["/v1/chat/completions"] * 2]
    ((level, sentence),) = notices
    assert level == "info"
    assert f"no model service at {service.url}, but at {service.url}/v1, which" in sentence


@pytest.mark.parametrize("path", ["", "/v1"])
def test_an_address_with_nothing_behind_it_is_named(service: Service, path: str) -> None:
    service.replies = [NOTHING_HERE]
    address = f"{service.url}{path}"
    with pytest.raises(ModelError, match=f"no model service at {address}/chat/completions"):
        answer(ChatClient("compatible", address, "m", timeout=PATIENCE))
    assert len(service.asked) == (1 if path else 2)


def test_a_missing_model_is_not_taken_for_a_wrong_address(service: Service) -> None:
    for reply_text in ("The model `m7` does not exist.", "m7: not here"):
        service.replies = [Reply([reply_text.encode()], 404)]
        with pytest.raises(ModelError, match="does not exist or is not available"):
            answer(ChatClient("compatible", service.url, "m7", timeout=PATIENCE))


@pytest.mark.parametrize(
    ("piece", "failure"),
    [
        (b'data: {"object": "error", "message": "Gone", "code": 400}\n\n', "rejected .*: Gone"),
        (b'data: {"object": "error", "message": "Gone"}\n\n', GONE),
        (b'error: {"code": 500, "message": "Gone"}\n\n', "The service failed: Gone."),
        (b'event: error\ndata: {"message": "Gone"}\n\n', GONE),
        (b"event: error\ndata: Gone\n\n", GONE),
        (b'{"error": {"message": "Gone"}}', GONE),
        (b'{\n  "detail": "Gone"\n}\n', GONE),
        (b'[{"error": {"message": "Gone"}}]', GONE),
    ],
)
@pytest.mark.parametrize("first_piece", [b"", delta(content="Half")], ids=["at once", "within"])
def test_errors_in_a_stream_are_reported_in_the_services_words(
    service: Service, first_piece: bytes, piece: bytes, failure: str
) -> None:
    service.replies = [
        Reply(
            [first_piece, piece] if first_piece else [piece], 200, {"content-type": OPENAI.content}
        )
    ]
    chunks: list[ChatChunk] = []
    with pytest.raises(ModelError, match=failure):
        chunks.extend(client(service).stream(QUESTION))


@pytest.mark.parametrize(
    ("dialect", "pieces"),
    [
        ("compatible", [delta(content="Half"), b"data: [DONE]\n\n"]),
        ("anthropic", [*ANTHROPIC.begin, ANTHROPIC.words("Half"), ANTHROPIC.end[-1]]),
    ],
)
def test_an_answer_that_ends_without_a_reason_may_be_cut_off(
    service: Service, dialect: Dialect, pieces: list[bytes]
) -> None:
    service.replies = [Reply(pieces, headers={"content-type": OPENAI.content})]
    end = answer(ChatClient(dialect, service.url, "m", timeout=PATIENCE))[-1].end
    assert end is not None
    metadata = {"finish_reason": end.reason}
    assert is_cut(metadata)
    assert cut_note(metadata).startswith("The answer may be cut off: ")
    assert "token limit" in cut_note({"finish_reason": "length"})
    assert not cut_note({"finish_reason": "stop"})


@pytest.mark.parametrize("kind", ["content", "reasoning_content"])
def test_an_answer_above_the_limit_is_kept_up_to_it_and_its_connection_closed(
    service: Service, kind: str
) -> None:
    pieces = [_delta("m", **{kind: "x" * 300})] * 9
    service.replies = [Reply([*pieces, service.stall], headers={"content-type": OPENAI.content})]
    chunks: list[ChatChunk] = []
    with pytest.raises(ModelError, match=r"^The answer was stopped after 1,000 characters\. "):
        chunks.extend(client(service, max_answer_chars=1_000).stream(QUESTION))
    assert service.left.wait(PATIENCE)


def test_what_arrived_while_nobody_read_comes_as_one_chunk(service: Service) -> None:
    service.replies = [OPENAI.reply("The", " answer", " is", " 7.")]
    stream = client(service).stream(QUESTION)
    first_chunk = next(stream)
    assert service.connections
    later_chunks = [chunk for chunk in stream if any(chunk)]
    assert text([first_chunk, *later_chunks]) == "The answer is 7."
    joined = [*join_waiting([ChatChunk("a"), ChatChunk("b"), ChatChunk("", "why"), ChatChunk("c")])]
    assert joined == [ChatChunk("ab"), ChatChunk("", "why"), ChatChunk("c")]
    end_chunk = ChatChunk(end=AnswerEnd("m", "stop", None))
    assert [*join_waiting([ChatChunk("a"), end_chunk])] == [ChatChunk("a"), end_chunk]


@pytest.mark.parametrize(
    "event",
    [
        {"choices": [7]},
        {"choices": [{"delta": "x"}]},
        {"choices": [{"delta": {"tool_calls": [7]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": 7}]}}]},
    ],
)
def test_answer_in_another_format_gives_one_sentence(service: Service, event: Any) -> None:
    service.replies = [OPENAI.sending([_data("m", **event)])]
    with pytest.raises(ModelError, match=NOT_AN_ANSWER):
        answer(client(service))


def test_non_streaming_service_answers_too(service: Service) -> None:
    choice = {"message": {"content": "So."}, "finish_reason": "length"}
    completion = {"model": "m", "choices": [choice], **used(2, read=1)}
    service.replies = [document(json.dumps(completion).encode())]
    chunks = answer(client(service))
    assert text(chunks) == "So."
    assert chunks[-1].end is not None
    assert (chunks[-1].end.reason, chunks[-1].end.usage) == ("length", TokenUsage(1, 2, 0))
    service.replies = [document(b'{"error": {"message": "No.", "code": 429}}')]
    with pytest.raises(ModelError, match=r"^The service's limit is reached: No\.$"):
        answer(client(service))


def test_redirect_does_not_receive_the_key(service: Service) -> None:
    with serving() as other_service:
        service.replies = [Reply([], 307, {"location": f"{other_service.url}/v1/chat/completions"})]
        refused = f"points to another address, which is not followed: {other_service.url}"
        with pytest.raises(ModelError, match=refused):
            answer(client(service, key="sk-secret"))
        assert not other_service.headers


def test_unsendable_key_is_not_quoted(service: Service) -> None:
    refused = r"^The key has characters that no key has\. Check A_KEY\.$"
    for key in ("sk-secret\n", "sk-sécret"):
        with pytest.raises(ModelError, match=refused):
            answer(client(service, key=key, key_name="A_KEY"))
    assert not service.asked


def test_key_in_a_services_own_message_is_masked(service: Service) -> None:
    service.replies = [document(b'{"error": {"message": "sk-abcdefghijkl is wrong"}}', 401)]
    masked = r"^The key was not accepted: •+ is wrong\. Check A_KEY\.$"
    with pytest.raises(ModelError, match=masked):
        answer(client(service, key="sk-abcdefghijkl", key_name="A_KEY"))


def test_environment_proxy_is_used_except_for_this_machine(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "inside.invalid")
    with serving() as proxy:
        address = proxy.url.replace("//", "//me:p%40ss@")
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("https_proxy", address)
        proxy.replies = service.replies = [OPENAI.reply("So.")]
        assert text(answer(ChatClient("compatible", "http://outside.invalid/v1?v=2", "m"))) == "So."
        assert proxy.paths == ["http://outside.invalid/v1/chat/completions?v=2"]
        assert proxy.headers[0]["proxy-authorization"] == "Basic bWU6cEBzcw=="
        with pytest.raises(ModelError, match=r"cannot be reached: Tunnel connection failed: 403"):
            answer(ChatClient("openai", "https://outside.invalid/v1", "m", key="sk-secret"))
        assert proxy.asked[1] == {"connect": "outside.invalid:443"}
        assert "sk-secret" not in str(proxy.headers)
        assert text(answer(client(service))) == "So."
        with pytest.raises(ModelError, match=r"cannot be reached: .*http://inside\.invalid"):
            answer(ChatClient("compatible", "http://inside.invalid/v1", "m"))
        assert len(proxy.asked) == 2
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(ModelError, match=r"a proxy of the kind socks5:// is not supported"):
        answer(ChatClient("compatible", "http://outside.invalid/v1", "m"))


@pytest.mark.parametrize(
    ("documents", "facts"),
    [
        (
            {"/v1/models": {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]}},
            ServerFacts(4096),
        ),
        ({"/v1/models": {"data": [{"id": "another", "meta": {"n_ctx": 8192}}]}}, ServerFacts(8192)),
        ({"/props": PROPS, "/v1/models": b"no"}, ServerFacts(2048, True, reports_progress=True)),
        ({"/api/v0/models": {"data": [LM_STUDIO]}}, ServerFacts(9, False)),
        ({"/v1/models": {"data": TWO_MODELS}}, ServerFacts()),
        (
            {"/v1/models": b"[" * 100_000, "/props": [7], "/api/v0/models": {"data": 7}},
            ServerFacts(),
        ),
        ({}, ServerFacts()),
    ],
    ids="vLLM|llama.cpp's list|llama.cpp|LM Studio|unknown name|garbage|nothing".split("|"),
)
def test_server_reports_context_size_and_vision(
    service: Service, documents: dict[str, Any], facts: ServerFacts
) -> None:
    service.documents = documents
    it = client(service)
    assert it.facts() == facts
    service.documents = {}
    assert it.facts() == facts, "it is asked once"


def progress(processed: object, total: object) -> bytes:
    counts = {"processed": processed, "total": total, "cache": 0, "time_ms": 9}
    return _data("m", choices=[{"delta": {"content": None}}], prompt_progress=counts)


def test_llama_cpp_reports_how_much_of_the_prompt_has_been_read(service: Service) -> None:
    service.documents = {"/props": PROPS}
    pieces = [progress(256, 1024), progress("x", 9), progress(9, 0), progress(2000, 1000)]
    service.replies = [OPENAI.sending([*pieces, OPENAI.words("So."), *OPENAI.end])] * 2
    it = client(service)
    answer(it)
    assert "return_progress" not in service.asked[0], "the server is not known yet"

    it.facts()
    chunks = answer(it)

    assert service.asked[1]["return_progress"] is True
    shares = [chunk.read_share for chunk in chunks if chunk.read_share is not None]
    assert (shares, text(chunks)) == ([0.25, 1.0], "So.")


def test_reading_of_a_prompt_is_reported_while_an_answer_is_awaited(service: Service) -> None:
    pieces = [progress(256, 1024), progress(1024, 1024)]
    service.replies = [OPENAI.sending([*pieces, OPENAI.words("So."), *OPENAI.end])]
    shares: list[float] = []
    reply = read(get_llm(OPENAI.spec), on_reading=shares.append)
    assert (reply.text, shares) == ("So.", [0.25, 1.0])


def test_unavailable_server_is_queried_again_later(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_facts, "_TIMEOUT_S", 0.1)
    service.documents = {"/v1/models": service.stall}
    llm = get_llm("llamacpp:m")
    assert (context_window(llm), llm.profile) == (None, None)
    service.documents = {"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx": 8192}}]}}
    assert context_window(llm) is None
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert context_window(llm) == 8192


def test_copied_model_asks_like_the_original(service: Service) -> None:
    make: Callable[..., ChatService] = ChatService
    llm = get_llm(OPENAI.spec)
    fresh = make(**{name: getattr(llm, name) for name in ChatService.model_fields})
    service.replies = [OPENAI.reply("So.")]
    assert fresh.invoke("hi").text == "So."
    assert service.headers[0]["authorization"] == "Bearer no-secret"
