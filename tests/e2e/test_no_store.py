"""A session that leaves no trace, and a question's spans in a collector."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mahtab_tui.manual import page
from tests.e2e.conftest import Start
from tests.services import OPENAI, LocalServer, answering, serving
from tests.waiting import wait_for
from tests.warm import run_program

CANARY = "canary4711"

CODE = "```python\nprint(6 * 7)\n```"
STEP = ["  generate", "    ChatService", "    after_generate", "  read_reply"]
KEY = "sk-aaaaaaaaaaaaaaaa"


def found(*folders: Path) -> list[str]:
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [
        str(file) for file in files if CANARY.encode() in file.name.encode() + file.read_bytes()
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("killed", [False, True])
def test_no_trace_session_writes_nothing(
    start: Start, home: Path, project: Path, tmp_path: Path, killed: bool
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    screen = start("--no-store", env={"TMPDIR": str(temporary)})
    screen.wait("Nothing of this session is saved")
    screen.idle()
    screen.enter(f"{CANARY} = ['{CANARY}' * 3]; print('is ' + 'made')", "is made")
    screen.enter(
        f"answer = rlm('Where is {CANARY}?', '{CANARY} line\\n' * 20_000); print('has ' + 'searched')",
        "has searched",
    )
    screen.enter(f"`How many items has {CANARY}?")
    screen.press_until("y", f"{CANARY} has 1 items", prompt_pattern="y run")
    screen.type(f"draft_of_{CANARY}", f"draft_of_{CANARY}")
    assert found(home, project, temporary) == []
    if killed:
        screen.kill()
    else:
        screen.leave()
        assert "To continue it" not in screen.text
    assert found(home, project, temporary) == []
    assert run_program("sessions").stdout.count(CANARY) == 0
    again = start("--continue")
    again.wait("There is no session to resume")


@contextlib.contextmanager
def receiving(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Serve on loopback; yield the address and the requests' bodies."""
    sent: list[bytes] = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            if body:
                sent.append(body)
            self.send_response(202)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_PATCH = do_GET = do_POST

        def log_message(self, *args: object) -> None: ...

    with LocalServer(Service) as server, answering(server):
        yield f"http://127.0.0.1:{server.server_port}", sent


@pytest.fixture
def langsmith() -> Iterator[tuple[dict[str, str], list[bytes]]]:
    with receiving(b"{}") as (address, sent):
        variables = {"TRACING": "true", "ENDPOINT": address, "API_KEY": "key"}
        yield {f"LANGSMITH_{name}": text for name, text in variables.items()}, sent


@pytest.mark.thorough
def test_no_trace_session_sends_nothing_to_langsmith(
    start: Start, langsmith: tuple[dict[str, str], list[bytes]]
) -> None:
    variables, sent = langsmith
    for arguments in ([], ["--no-store"]):
        screen = start(*arguments, env=variables).idle()
        screen.enter(f"{CANARY} = [1]; print('is ' + 'made')", "is made")
        screen.enter(f"`How many items has {CANARY}?", "waits for you")
        if arguments:
            assert "to LangSmith" not in screen.text
            screen.leave()
            assert not sent
        else:
            screen.wait("ask first  to LangSmith")
            wait_for(lambda: sent)
            screen.leave()
            sent.clear()


# LangSmith's client sends spans to a collector as the manual says.


def tree(spans: Sequence[Any], parent: bytes = b"", depth: int = 0) -> list[str]:
    """Return the names of the spans, indented below their parents."""
    names = []
    for span in spans:
        if span.parent_span_id == parent:
            names += ["  " * depth + span.name, *tree(spans, span.span_id, depth + 1)]
    return names


@pytest.mark.thorough
def test_question_reaches_the_collector_with_its_model_calls() -> None:
    with receiving(b"") as (address, bodies), serving() as service:
        service.replies = [OPENAI.reply(CODE), OPENAI.reply("It is 42.")]
        variables = dict(re.findall(r"^export (\w+)=(\S+)$", page("models").text, re.MULTILINE))
        assert variables.keys() >= {"LANGSMITH_OTEL_ONLY", "OTEL_EXPORTER_OTLP_ENDPOINT"}
        variables |= {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "NO_PROXY": "127.0.0.1"}
        other_variables = {name: text for name, text in os.environ.items() if "LANG" not in name}
        options = f"--model openai:gpt-4o --approval auto --set base_url={service.url}/v1".split()
        command = [sys.executable, "-m", "mahtab_tui", "ask", f"How much? {KEY}", *options]
        environment = other_variables | variables | {"OPENAI_API_KEY": KEY}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "It is 42.\n"), done.stderr
    spans = [
        span
        for request in map(ExportTraceServiceRequest.FromString, bodies)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    spans.sort(key=lambda span: span.start_time_unix_nano)
    assert tree(spans)[:5] == ["LangGraph", *STEP]
    first_call, second_call = (
        {
            attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
            for attribute in span.attributes
        }
        for span in spans
        if span.name == "ChatService"
    )
    for call in (first_call, second_call):
        assert call["gen_ai.usage.input_tokens"] == 1000
    assert "print(6 * 7)" in first_call["gen_ai.completion"]
    assert "How much?" in first_call["gen_ai.prompt"]
    assert "It is 42." in second_call["gen_ai.completion"]
    assert not any(KEY.encode() in body for body in bodies)
