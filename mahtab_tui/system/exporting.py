"""Variables of the environment by which what happens here is sent elsewhere: to LangSmith, by langchain-core; as traces, by OpenTelemetry."""

from __future__ import annotations

import os
import re

_VARIABLES = ("LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING", "LANGCHAIN_TRACING")
"""In the order in which langsmith looks at them; the first that is not blank counts."""

_EXPORTER, _PROTOCOL = "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL"
_ENDPOINT, _TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_DEFAULT = "http://localhost:4318"
_WITHIN_URL = re.compile(r"(?<=://)[^/@\s]+@")
"""A name and a password."""


def sent_to_langsmith() -> str:
    """Return the variable that has prompts and answers sent to LangSmith; empty if none does."""
    asks = next((name for name in _VARIABLES if os.environ.get(name, "").strip()), "")
    return asks if asks and os.environ[asks] == "true" else ""


def keep_from_langsmith() -> None:
    """Have nothing sent from this process, and from those that it starts."""
    for name in _VARIABLES:
        if os.environ.get(name):
            os.environ[name] = "false"


def traces_go_to() -> str:
    """Return the address to which OpenTelemetry's variables have traces sent, without a password; empty if none are sent."""
    if _value("OTEL_SDK_DISABLED").lower() == "true":
        return ""
    exporters = [name.strip() for name in _value(_EXPORTER).split(",") if name.strip()]
    if "otlp" not in exporters and (exporters or not (_value(_ENDPOINT) or _value(_TRACES_ENDPOINT))):
        return ""
    return _WITHIN_URL.sub("", _value(_TRACES_ENDPOINT) or f"{(_value(_ENDPOINT) or _DEFAULT).rstrip('/')}/v1/traces")


def traces_have_content() -> bool:
    """Return whether questions, answers, code and outputs are part of traces."""
    return _value(_CONTENT).lower() == "true"


def unsupported_protocol() -> str:
    """Return the protocol that the variables ask for, if traces are not sent with it; otherwise nothing."""
    asked = _value("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or _value(_PROTOCOL)
    return "" if asked in ("", "http/protobuf") else asked


def _value(name: str) -> str:
    return os.environ.get(name, "").strip()
