"""A collector of spans on this machine, which reads the official messages of OTLP over HTTP."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.services import LocalServer, answering


class CollectedSpan(NamedTuple):
    """A span as it was sent."""

    name: str
    id: bytes
    parent: bytes
    attributes: dict[str, Any]
    start: int


class Collector:
    """Keeps the requests that a collector gets."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.url = ""

    @property
    def spans(self) -> list[CollectedSpan]:
        found = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for span in (span for scope in resource.scope_spans for span in scope.spans):
                    attributes = {each.key: _value(each.value) for each in span.attributes}
                    ids = span.span_id, span.parent_span_id
                    start = span.start_time_unix_nano
                    found.append(CollectedSpan(span.name, *ids, attributes, start))
        return sorted(found, key=lambda span: span.start)

    def tree(self) -> list[str]:
        """Return the names of the spans, indented below their parents."""
        spans = self.spans

        def below(parent: bytes, depth: int) -> Iterator[str]:
            for span in spans:
                if span.parent == parent:
                    yield "  " * depth + span.name
                    yield from below(span.id, depth + 1)

        return list(below(b"", 0))


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """Open a collector for the time of a test."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            collector.bodies.append(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            """Write nothing to stderr."""

    with LocalServer(Handler) as server, answering(server):
        collector.url = f"http://127.0.0.1:{server.server_port}"
        yield collector
