"""Asking a model behind a service on this machine."""

from __future__ import annotations

import threading

from langchain_core.messages import HumanMessage

from mahtab_tui.agent.model_calls import ModelAnswer, read_answer
from mahtab_tui.llm.providers import get_llm
from tests.services import Protocol, Reply, Service

PATIENCE = 30.0


def ask(
    service: Service, protocol: Protocol, *replies: Reply, timeout: float = PATIENCE
) -> ModelAnswer:
    service.replies = list(replies)
    return read_answer(
        get_llm(protocol.spec, timeout=timeout), [HumanMessage("hi")], threading.Event()
    )


def get_key(protocol: Protocol) -> str:
    return str(getattr(get_llm(protocol.spec), "key", ""))
