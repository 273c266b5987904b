"""The model of a session for which none is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.llm import providers
from mahtab_tui.session import Session
from mahtab_tui.session.info import HeadlessFrontend
from mahtab_tui.settings.model import load_settings
from tests import tags
from tests.integration.sessions import Watched
from tests.services import OPENAI, Service


def test_model_of_a_local_server_answers_and_is_named(
    service: Service, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    monkeypatch.setattr(providers, "_LIMIT", 30.0)
    service.documents = {"/v1/models": {"data": [{"id": "qwen"}]}}
    service.replies = [OPENAI.reply("A model.")]
    store = Watched()
    session = Session(
        load_settings(), ProcessKernel(), HeadlessFrontend(), store=store, name="test"
    )
    try:
        session.start()
        assert session.model == "llamacpp:qwen"
        assert store.wait(tags.NOTICE).text == (
            f"No model is set, so the one found at {service.url} answers: llamacpp:qwen. /model chooses another one."
        )
        session.submit("ask", "who answers?")
        usage = store.wait(tags.USAGE)
        assert (usage.attrs["cost"], usage.attrs["input_tokens"]) == (0, 1000)
        assert "tools" not in service.asked[0], "models on this machine write code instead"
    finally:
        session.close()
