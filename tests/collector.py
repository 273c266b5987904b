"""A collector of traces on this machine, which reads the official messages of OTLP."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from tests.services import LocalServer, answering

SPAN_KINDS = {1: "internal", 3: "client"}


class CollectedSpan(NamedTuple):
    """A span as it was sent."""

    name: str
    id: bytes
    parent: bytes
    trace: bytes
    kind: str
    attributes: dict[str, Any]
    start: int
    end: int
    failed: bool


class Collector:
    """What a collector has got."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.bodies: list[bytes] = []
        self.open = threading.Event()
        self.open.set()
        """Cleared: requests are not answered."""
        self.url = ""

    @property
    def spans(self) -> list[CollectedSpan]:
        """All spans, by their beginnings."""
        found = []
        for request in self.requests:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        attributes = {each.key: _value(each.value) for each in span.attributes}
                        times = span.start_time_unix_nano, span.end_time_unix_nano
                        ids = span.span_id, span.parent_span_id, span.trace_id
                        found.append(CollectedSpan(span.name, *ids, SPAN_KINDS[span.kind], attributes, *times, span.status.code == 2))
        return sorted(found, key=lambda span: span.start)

    @property
    def resource(self) -> dict[str, Any]:
        return {each.key: _value(each.value) for each in self.requests[0].resource_spans[0].resource.attributes}

    def tree(self) -> list[str]:
        """The spans' names, indented below their parents."""
        spans = self.spans

        def below(parent: bytes, depth: int) -> Iterator[str]:
            for span in spans:
                if span.parent == parent:
                    yield "  " * depth + span.name
                    yield from below(span.id, depth + 1)

        return list(below(b"", 0))


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector for the time of a test."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collector.open.wait()
            assert self.path == "/v1/traces"
            collector.bodies.append(body)
            collector.requests.append(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            with contextlib.suppress(OSError):
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            """Nothing on stderr."""

    with LocalServer(Handler) as server, answering(server):
        collector.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield collector
        finally:
            collector.open.set()
