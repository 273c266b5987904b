"""Variables that have prompts or traces sent are read as the packages that send read them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from langsmith.utils import get_env_var

from mahtab_tui.system.exporting import keep_from_langsmith, sent_to_langsmith, traces_go_to, traces_have_content, unsupported_protocol

NAMES = ("LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING", "LANGCHAIN_TRACING")


def said_by_its_package() -> bool:
    remembered: Any = get_env_var
    remembered.cache_clear()
    return get_env_var("TRACING_V2", default=get_env_var("TRACING", default="")) == "true"


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, ""),
        ({"LANGSMITH_TRACING": "true"}, "LANGSMITH_TRACING"),
        ({"LANGCHAIN_TRACING_V2": "true"}, "LANGCHAIN_TRACING_V2"),
        ({"LANGSMITH_TRACING": "false"}, ""),
        ({"LANGSMITH_TRACING": "True"}, ""),
        ({"LANGSMITH_TRACING_V2": "false", "LANGSMITH_TRACING": "true"}, ""),
        ({"LANGSMITH_TRACING_V2": " ", "LANGCHAIN_TRACING": "true"}, "LANGCHAIN_TRACING"),
        ({"LANGCHAIN_TRACING_V2": "false", "LANGSMITH_TRACING_V2": "true"}, "LANGSMITH_TRACING_V2"),
    ],
)
def test_what_is_sent_is_known(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], found: str) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert sent_to_langsmith() == found
    assert said_by_its_package() is bool(found)
    keep_from_langsmith()
    assert not said_by_its_package()
    assert not sent_to_langsmith()
    assert os.environ.keys() & set(NAMES) == variables.keys()


@pytest.mark.parametrize(
    ("variables", "where"),
    [
        ({}, ""),
        ({"ENDPOINT": "http://one:4318/"}, "http://one:4318/v1/traces"),
        ({"ENDPOINT": "http://one:4318", "TRACES_ENDPOINT": "http://two/own"}, "http://two/own"),
        ({"TRACES_ENDPOINT": "https://me:secret@two/own"}, "https://two/own"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "http://localhost:4318/v1/traces"),
        ({"OTEL_TRACES_EXPORTER": "console, otlp", "ENDPOINT": "http://one"}, "http://one/v1/traces"),
        ({"OTEL_TRACES_EXPORTER": "none", "ENDPOINT": "http://one"}, ""),
        ({"OTEL_SDK_DISABLED": "True", "ENDPOINT": "http://one"}, ""),
        ({"ENDPOINT": "  "}, ""),
    ],
)
def test_where_traces_go_is_known_as_the_exporter_knows_it(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], where: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name if name.startswith("OTEL_") else f"OTEL_EXPORTER_OTLP_{name}", value)
    assert traces_go_to() == where
    if where and "TRACES_ENDPOINT" not in variables:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        assert OTLPSpanExporter()._endpoint == where


def test_texts_and_protocols(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (traces_have_content(), unsupported_protocol()) == (False, "")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "TRUE")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert (traces_have_content(), unsupported_protocol()) == (True, "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    assert unsupported_protocol() == ""
