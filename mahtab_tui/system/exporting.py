"""Variables of the environment that have langchain-core send what happens here: to LangSmith, or to
a collector of OpenTelemetry."""

from __future__ import annotations

import os

_VARIABLES = (
    "LANGSMITH_TRACING_V2",
    "LANGCHAIN_TRACING_V2",
    "LANGSMITH_TRACING",
    "LANGCHAIN_TRACING",
)
"""In the order in which langsmith looks at them; the first that is not blank counts."""


def sent_to_langsmith() -> str:
    """Return the variable that has prompts and answers sent to LangSmith; empty if none does."""
    asks = next((name for name in _VARIABLES if os.environ.get(name, "").strip()), "")
    return asks if asks and os.environ[asks] == "true" else ""


def keep_from_langsmith() -> None:
    """Have nothing sent from this process, and from those that it starts."""
    for name in _VARIABLES:
        if os.environ.get(name):
            os.environ[name] = "false"
