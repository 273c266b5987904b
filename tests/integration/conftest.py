"""Kernels and sessions for the integration tests."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mahtab_tui.bus.records import Record
from mahtab_tui.export.reading import LoadedNotebook
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import FileWatching, SaveTarget
from mahtab_tui.sandbox.base import Sandbox, Sandboxes
from mahtab_tui.sandbox.process import ProcessSandboxes, open_sandboxes
from mahtab_tui.sandbox.searched_text import SearchedText
from mahtab_tui.settings.model import load_settings
from tests.agents import RecordedSession
from tests.integration.kernels import Cells, running
from tests.integration.sandboxes import RecordingNode
from tests.integration.sessions import Opened, OpenSession
from tests.services import PROTOCOLS, Protocol, Service, serving


@pytest.fixture
def cells(project: Path) -> Iterator[Cells]:
    """A started kernel process, whose working directory is `project`."""
    with running(ProcessKernel()) as cells:
        yield cells


@pytest.fixture
def recorded_session(project: Path) -> Iterator[RecordedSession]:
    """A session without a screen, whose agent is made by the test."""
    recorded_session = RecordedSession(project)
    yield recorded_session
    recorded_session.session.close()


@pytest.fixture
def open_session(project: Path) -> Iterator[OpenSession]:
    """Open a session whose model answers with the given lines, or is another one; all are closed
    with the test."""
    opened: list[Opened] = []

    def open_it(
        *lines: str | dict[str, Any],
        model: str = "",
        approval: str = "ask",
        past: Sequence[Record] = (),
        undo_steps: int = 20,
        keep: SaveTarget | None = None,
        watching: FileWatching | None = None,
        notebook: LoadedNotebook | None = None,
        **more: Any,
    ) -> Opened:
        path = project / "replay.jsonl"
        values = [
            {"text": line} if isinstance(line, str) else line
            for line in lines or ("Nothing to say.",)
        ]
        path.write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")
        it = Opened.make(
            load_settings(model=model or f"replay:{path}", approval=approval, **more),
            kernel=ProcessKernel(undo_steps=undo_steps, keep=keep, watching=watching),
            past=past,
            notebook=notebook,
        )
        opened.append(it)
        it.session.start()
        return it

    yield open_it
    for it in opened:
        it.session.close()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service that all four providers find."""
    with serving() as service:
        for name in ("ANTHROPIC", "OPENAI", "OPENROUTER"):
            monkeypatch.setenv(f"{name}_API_KEY", "no-secret")
        for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL", "OLLAMA_HOST", "LLAMACPP_HOST"):
            monkeypatch.setenv(name, service.url)
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENROUTER_API_BASE"):
            monkeypatch.setenv(name, f"{service.url}/v1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        # It speaks no TLS, and every client would read all certificates anew.
        monkeypatch.setattr(
            ssl.SSLContext, "load_verify_locations", lambda *arguments, **named: None
        )
        yield service


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    """All four."""
    return PROTOCOLS[request.param]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandboxes() -> AsyncIterator[ProcessSandboxes]:
    """Sandboxes that are processes, for the tests of a module."""
    opened_sandboxes = open_sandboxes()
    assert isinstance(opened_sandboxes, ProcessSandboxes)
    yield opened_sandboxes
    await opened_sandboxes.close()


@pytest.fixture
def node() -> RecordingNode:
    """The node behind a sandbox."""
    return RecordingNode()


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(sandboxes: Sandboxes, node: RecordingNode) -> AsyncIterator[Sandbox]:
    """One of the module's own `sandboxes`, with a short text."""
    started_sandbox = await sandboxes.start(SearchedText.root("one\ntwo\nthree\n"), node)
    yield started_sandbox
    await started_sandbox.close()
