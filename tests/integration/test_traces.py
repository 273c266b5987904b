"""Traces by OpenTelemetry: real sessions with replayed models, and a collector that reads the official messages."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mahtab_tui.bus import records, tags
from mahtab_tui.bus.decision import Decision
from mahtab_tui.bus.records import Approval, Notice
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.agent_calls import AgentCalls
from mahtab_tui.session.face import NoFace
from mahtab_tui.session.joined_agents import AgentCall
from mahtab_tui.session.trace_fold import TraceFold
from mahtab_tui.session.traces import Traces
from mahtab_tui.settings.model import load_settings
from tests.collector import CollectedSpan, Collector, collecting
from tests.embedding_service import embedding
from tests.integration.sessions import Opened, Watched
from tests.integration.test_provider_tools import calling
from tests.services import OPENAI, refusing, serving
from tests.waiting import wait_for

OpenSession = Callable[..., Opened]
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CANARY = "canary-Zq7"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


def named(collector: Collector, name: str) -> CollectedSpan:
    (found,) = [span for span in collector.spans if span.name == name]
    return found


def notices(it: Opened) -> list[str]:
    return [record.text for record in it.store.records if isinstance(record, Notice)]


def approve(it: Opened, *decisions: Decision) -> list[str]:
    """Answer the approvals that will wait, in order; returns the list of the codes that waited, which grows."""
    asked: list[str] = []

    def waiting() -> list[Approval]:
        return [record for record in it.store.records if isinstance(record, Approval) and record.state == "waiting"]

    def work() -> None:
        for number, decision in enumerate(decisions):
            wait_for(lambda number=number: len(waiting()) > number)  # type: ignore[misc]
            asked.append(waiting()[number].text)
            it.session.decide(waiting()[number].request, decision)

    threading.Thread(target=work, daemon=True).start()
    return asked


def usage(**counts: Any) -> dict[str, Any]:
    return {"usage": counts}


def test_a_turn_is_a_tree_of_spans(open_session: OpenSession, collector: Collector) -> None:
    it = open_session("```python\nx = 20 + 1\nx\n```", "```python\n1 / 0\n```", "It is 21.", approval="auto")
    it.session.agent.ask("What is it?")
    it.session.close()
    model = it.session.model
    chat = f"chat {model.partition(':')[2]}"
    turn = "invoke_agent mahtab-tui"
    assert collector.tree() == [turn, f"  {chat}", "  execute_tool python", f"  {chat}", "  execute_tool python", f"  {chat}"]
    spans = collector.spans
    assert len({span.trace for span in spans}) == 1
    assert len({span.attributes["gen_ai.conversation.id"] for span in spans}) == 1
    assert all(span.start <= span.end for span in spans)
    assert all(spans[0].start <= span.start and span.end <= spans[0].end for span in spans)
    attributes = spans[0].attributes
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.agent.name"] == "mahtab-tui"
    assert (attributes["gen_ai.provider.name"], attributes["gen_ai.request.model"]) == tuple(model.split(":", 1))
    assert [span.kind for span in spans] == ["internal", "client", "internal", "client", "internal", "client"]
    assert spans[1].attributes["gen_ai.response.finish_reasons"] == ["stop"]
    tools = [span for span in spans if span.name == "execute_tool python"]
    assert [(span.attributes["gen_ai.tool.call.id"], span.attributes.get("error.type"), span.failed) for span in tools] == [
        ("1.0.0", None, False),
        ("1.1.0", "error", True),
    ]
    assert collector.resource["service.name"] == "mahtab-tui"
    for text in ("20 + 1", "What is it?", "It is 21", "ZeroDivisionError", str(Path.cwd().name)):
        assert not any(text.encode() in body for body in collector.bodies) or text in model


def test_the_users_own_cells_have_no_span_and_agents_cells_name_the_agent(open_session: OpenSession, collector: Collector) -> None:
    it = open_session(approval="auto")
    it.run("x = 1")
    guest = it.session.joined_agents.join("codex", lambda sentence: None, None)
    AgentCalls(it.session).serve(guest, AgentCall(lambda frame: None), "run", {"code": "y = 2"})
    it.session.close()
    (span,) = collector.spans
    assert (span.name, span.attributes["gen_ai.agent.name"]) == ("execute_tool python", "codex")


def open_with_service(url: str, project: Path, **more: Any) -> Opened:
    store = Watched()
    keys = {"openai_compatible": "sk-aaaaaaaaaaaaaaaa"}
    settings = load_settings(model="openai:gpt-4o", base_url=f"{url}/v1", api_keys=keys, approval="auto", **more)
    it = Opened(Session(settings, ProcessKernel(), NoFace(), store=store, name="test"), store)
    it.session.start()
    return it


def test_tokens_cost_and_tools_are_attributes(collector: Collector, project: Path) -> None:
    with serving() as service:
        it = open_with_service(service.url, project)
        service.replies = [OPENAI.reply("Fine.")]
        it.session.agent.ask("Go on.")
        service.replies = [OPENAI.sending([OPENAI.words("Much"), *OPENAI.cut])]
        it.session.agent.ask("More.")
        it.session.close()
    chats = [span for span in collector.spans if span.name == "chat gpt-4o"]
    attributes = chats[0].attributes
    assert (attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"]) == (1000, 100)
    assert attributes["gen_ai.usage.cost"] == 0.0, "a service on this machine costs nothing"
    assert attributes["gen_ai.response.model"] == "gpt-4o"
    assert attributes["gen_ai.provider.name"] == "openai"
    assert [span.attributes["gen_ai.response.finish_reasons"] for span in chats] == [["stop"], ["length"]]


def test_tool_calls_are_spans(collector: Collector, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.agent.nodes.is_on_this_machine", lambda llm: False)
    (project / "app.py").write_text("x = 1\n")
    with serving() as service:
        it = open_with_service(service.url, project)
        service.replies = [calling(OPENAI), OPENAI.reply("Done.")]
        it.session.agent.ask("Go on.")
        it.session.close()
    assert collector.tree() == [
        "invoke_agent mahtab-tui",
        "  chat gpt-4o",
        "  execute_tool read_file",
        "  execute_tool search_code",
        "  chat gpt-4o",
    ]
    found = [(span.attributes["gen_ai.tool.name"], span.attributes.get("error.type")) for span in collector.spans if "execute" in span.name]
    assert found == [("read_file", None), ("search_code", "error")]


def test_calls_of_an_embedding_model_are_spans(open_session: OpenSession, collector: Collector) -> None:
    with embedding({}) as service:
        it = open_session(embedding_model="openai:own", base_url=service.url)
        it.session.cells.run("search_skills('draw')")
        it.session.close()
    assert {span.name for span in collector.spans} == {"embeddings own"}
    assert all(span.attributes["gen_ai.usage.input_tokens"] > 0 for span in collector.spans)
    assert {(span.attributes["gen_ai.provider.name"], span.attributes["gen_ai.response.model"]) for span in collector.spans} == {("openai", "own")}


def test_checks_are_spans(open_session: OpenSession, collector: Collector) -> None:
    check = '{"is_complete": true, "reasoning": "", "next_action": ""}'
    it = open_session("```python\nsearch_skills('draw')\n```", check, "Done.", approval="auto", reflection="always")
    it.session.agent.ask("Go on.")
    it.session.close()
    names = [span.name.split()[0] for span in collector.spans]
    assert names == ["invoke_agent", "chat", "execute_tool", "chat", "chat"]


def test_a_model_that_fails_is_an_error(collector: Collector, project: Path) -> None:
    with serving() as service:
        it = open_with_service(service.url, project)
        service.replies = [refusing(400, "no such thing as sk-aaaaaaaaaaaaaaaa")]
        with pytest.raises(Exception, match="rejected"):
            it.session.agent.ask("Go on.")
        it.session.close()
    assert [(span.name, span.failed, span.attributes["error.type"]) for span in collector.spans] == [
        ("invoke_agent mahtab-tui", True, "_OTHER"),
        ("chat gpt-4o", True, "_OTHER"),
    ]
    assert not any(b"sk-aaaa" in body for body in collector.bodies)


def test_a_search_is_a_tree(open_session: OpenSession, collector: Collector) -> None:
    it = open_session("```python\nanswer = rlm('Which requests timed out?', '10:01 request 8 timed out\\n' * 2_000)\n```", "Done.", approval="auto")
    it.session.set_approval("auto")
    it.run("found = rlm('Which requests timed out?', '10:01 request 8 timed out: database\\n' * 2_000, model='demo')")
    it.session.close()
    tree = collector.tree()
    assert tree[0] == "invoke_agent rlm"
    assert "  chat demo" in tree
    assert "  execute_tool python" in tree
    spans = collector.spans
    assert len({span.trace for span in spans}) == 1
    ids = {span.id for span in spans}
    assert all(span.parent in ids for span in spans[1:])
    assert spans[0].attributes["gen_ai.agent.id"] == "1"


def test_the_calls_of_a_search_have_their_parents(open_session: OpenSession, collector: Collector) -> None:
    code = "FINAL(str(rlm_map('count', partition(2))))"
    it = open_session({"text": f"```python\n{code}\n```", "match": "how many"}, {"text": "7", "repeat": True})
    it.run("found = rlm('how many errors?', 'ERROR disk full\\n' * 5_000)")
    it.session.close()
    tree = collector.tree()
    assert (tree[0], tree[1].split()[0], tree[2]) == ("invoke_agent rlm", "chat", "  execute_tool python")
    root = collector.spans[0]
    parts = [span for span in collector.spans if span.attributes.get("mahtab.search.depth") == 1]
    assert [(span.name.split()[0], span.parent == root.id) for span in parts] == [("chat", True)] * 2


def folded(*told: records.Record) -> list[tuple[str, bool, Any]]:
    """The spans of these records: name, whether it is an error, why the model ended."""
    spans, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    fold = TraceFold(provider.get_tracer("test"), "one", lambda: "openai:own", None)
    for at, record in enumerate(told):
        fold.fold(record.changed(time=1.0 + at))
    finished = sorted(spans.get_finished_spans(), key=lambda span: span.start_time or 0)
    return [(span.name, not span.status.is_ok, (span.attributes or {}).get("gen_ai.response.finish_reasons")) for span in finished]


@pytest.mark.parametrize(("state", "failed", "reason"), [("stopped", False, ("stopped",)), ("failed", True, None)])
def test_an_answer_that_breaks_off_is_an_error_unless_the_user_has_stopped_it(state: str, failed: bool, reason: object) -> None:
    told = [records.UserChat("Go on.", turn=1), records.Agent(state="thinking", turn=1), records.AssistantChat("I", turn=1, step=0, stopped=True)]
    assert folded(*told, records.Agent(state=state, turn=1)) == [("invoke_agent mahtab-tui", failed, None), ("chat own", failed, reason)]


def test_what_never_ends_is_ended_with_the_session() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    fold = TraceFold(provider.get_tracer("test"), "one", lambda: "openai:own", None)
    fold.fold(records.UserChat("Go on.", turn=1, time=1.0))
    fold.fold(records.Agent(state="thinking", turn=1, time=2.0))
    fold.fold(records.Kernel(state="busy", time=3.0))
    assert not spans.get_finished_spans()
    fold.close()
    ended = [(span.name, span.end_time, (span.attributes or {})["error.type"]) for span in spans.get_finished_spans()]
    assert ended == [("chat own", 3_000_000_000, "cancelled"), ("invoke_agent mahtab-tui", 3_000_000_000, "cancelled")]


def test_a_search_in_a_cell_of_the_model_belongs_to_that_cell(open_session: OpenSession, collector: Collector) -> None:
    search = "rlm('Which requests timed out?', '10:01 request 8 timed out: database\\n' * 2_000, model='demo')"
    it = open_session(f"```python\nanswer = {search}\n```", "Done.", approval="auto")
    it.session.agent.ask("Go on.")
    it.session.close()
    tree = collector.tree()
    assert tree[0] == "invoke_agent mahtab-tui"
    assert "  execute_tool python" in tree
    assert "    invoke_agent rlm" in tree
    assert "      chat demo" in tree


def test_content_is_sent_only_if_it_is_asked_for_and_masked(open_session: OpenSession, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTENT, "true")
    it = open_session("```python\nprint('seen by all')\n```", "All is said.", approval="auto")
    it.session.secrets.add("hunter2-hunter2")
    it.session.agent.ask("Say hunter2-hunter2!")
    it.session.close()
    turn = named(collector, "invoke_agent mahtab-tui").attributes
    assert turn["gen_ai.input.messages"] == '[{"role": "user", "parts": [{"type": "text", "content": "Say ••••••••!"}]}]'
    assert "All is said." in turn["gen_ai.output.messages"]
    tool = named(collector, "execute_tool python").attributes
    assert "print('seen by all')" in tool["gen_ai.tool.call.arguments"]
    assert tool["gen_ai.tool.call.result"] == "seen by all\n"
    assert not any(b"hunter2" in body for body in collector.bodies)


@pytest.mark.parametrize("code", ["print(word, numbers)", "print(globals()['wo' + 'rd'])", "alias", "[each for each in box]"])
def test_private_variables_are_not_sent(open_session: OpenSession, collector: Collector, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setenv(CONTENT, "true")
    it = open_session(f"```python\n{code}\n```", f"I see {CANARY} word.", approval="auto")
    it.run(f"word = '{CANARY} word'\nalias = word\nnumbers = [424242, 1]\nbox = [word, numbers]", "private('word')", "private('numbers')")
    guest, calls = it.session.joined_agents.join("codex", lambda sentence: None, None), AgentCalls(it.session)
    approve(it, Decision("run"))
    calls.serve(guest, AgentCall(lambda frame: None), "run", {"code": code})
    it.session.agent.ask(f"What is {CANARY} word?")
    it.session.close()
    assert collector.spans
    assert not any(CANARY.encode() in body for body in collector.bodies)
    assert not any(b"424242" in body for body in collector.bodies)


def test_without_a_trace_nothing_is_sent(collector: Collector, project: Path) -> None:
    store = Watched()
    it = Opened(Session(load_settings(model="demo", approval="auto"), ProcessKernel(), NoFace(), store=store, no_trace=True), store)
    it.session.start()
    it.run("rlm('Which requests timed out?', '10:01 request 8 timed out: database')")
    it.session.close()
    assert not collector.requests


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": "console"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
    ],
)
def test_nothing_is_sent_or_loaded_unless_it_is_asked_for(collector: Collector, variables: dict[str, str]) -> None:
    script = (
        "import sys\nfrom mahtab_tui.session.state import SessionState, execute_code\nit = SessionState()\nexecute_code('1', it)\nit.close()\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter', 'mahtab_tui.session.trace'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ, **variables})
    assert done.stdout == "[]\n"
    assert not collector.requests


def test_a_collector_that_hangs_or_is_gone_delays_nothing_and_is_said_once(
    open_session: OpenSession, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    collector.open.clear()
    it = open_session("One.", "Two.", approval="auto")
    assert it.session.agent.ask("One?") == "One."
    assert it.session.agent.ask("Two?") == "Two."
    wait_for(lambda: bool(notices(it)))
    said = [f"Traces cannot be sent to {collector.url}/v1/traces. They are dropped."]
    assert notices(it) == said
    (traces,) = [handler for handler in it.session.log.handlers if isinstance(handler, Traces)]
    traces._exported("elsewhere", True)
    assert notices(it) == said
    it.session.close()


def test_a_missing_package_is_one_sentence(collector: Collector, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    it = open_session("Fine.")
    wait_for(lambda: bool(notices(it)))
    assert "because a package is not installed: install mahtab-tui[otel]" in notices(it)[0]
    assert it.session.agent.ask("One?") == "Fine."


def test_grpc_is_one_sentence(collector: Collector, open_session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    it = open_session("Fine.")
    wait_for(lambda: bool(notices(it)))
    assert "grpc is not supported. Set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf." in notices(it)[0]


def test_spans_that_are_open_at_the_end_are_sent(open_session: OpenSession, collector: Collector) -> None:
    it = open_session("```python\nimport time; time.sleep(1000)\n```", approval="auto")
    it.session.submit("ask", "Go on.")
    it.store.wait(tags.ASSISTANT_REPL_IN)
    records.emit(it.session.log, records.UserChat("Never answered.", turn=99))
    it.session.close()
    names = [span.name for span in collector.spans]
    assert names.count("invoke_agent mahtab-tui") == 2
    assert "execute_tool python" in names
