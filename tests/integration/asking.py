"""Asking a model behind a service on this machine."""

from __future__ import annotations

from typing import Any

from mahtab_tui.agent.model_calls import ModelAnswer
from mahtab_tui.llm.providers import get_llm
from tests.agents import read
from tests.services import OLLAMA, Protocol, Reply, Service, refusing

PATIENCE = 30.0


def ask(
    service: Service, protocol: Protocol, *replies: Reply, timeout: float = PATIENCE
) -> ModelAnswer:
    service.replies = list(replies)
    return read(get_llm(protocol.spec, timeout=timeout))


def refuse(protocol: Protocol, status: int, message: str, **options: Any) -> Reply:
    """An error in the protocol's form."""
    return refusing(status, message, plain=protocol is OLLAMA, **options)


def get_key(protocol: Protocol) -> str:
    return str(getattr(get_llm(protocol.spec), "key_name", ""))
