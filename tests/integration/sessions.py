"""A session over a store on which tests can wait for records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

from mahtab_tui.bus.records import Decision, Record
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.agent_calls import AgentCalls
from mahtab_tui.session.frontend import Frontend, HeadlessFrontend
from mahtab_tui.session.joined_agents import AgentCall
from mahtab_tui.settings.model import Settings
from mahtab_tui.store.memory_store import MemoryStore
from tests import tags
from tests.waiting import wait_for

DEADLINE = 60.0


class Watched(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def append(self, *added: Record) -> None:
        with self._changed:
            super().append(*added)
            self._changed.notify_all()

    def wait(self, tag: str, text: str | None = None, **attrs: Any) -> Any:
        """Wait for the first record of a tag with this text and these attributes."""

        def find() -> list[Any]:
            return [r for r in self.of(tag, **attrs) if text in (None, r.text)]

        with self._changed:
            if not self._changed.wait_for(find, DEADLINE):
                raise AssertionError(
                    f"no {tag} {attrs} in {[(r.tag, r.attrs.get('state')) for r in self.records]}"
                )
            return find()[0]

    def of(self, tag: str, **attrs: Any) -> list[Any]:
        """Return the records of a tag with these attributes."""
        return [r for r in self.records if r.tag == tag and attrs.items() <= r.attrs.items()]


class Opened:
    def __init__(self, session: Session, store: Watched) -> None:
        self.session = session
        self.store = store

    @classmethod
    def make(
        cls,
        settings: Settings,
        frontend: Frontend | None = None,
        *,
        kernel: ProcessKernel | None = None,
        **options: Any,
    ) -> Self:
        """Make a session in a kernel process; the caller starts and closes it."""
        kernel = kernel or ProcessKernel()
        frontend = frontend or HeadlessFrontend()
        store = Watched()
        return cls(Session(settings, kernel, frontend, store=store, name="test", **options), store)

    def run(self, *cells: str) -> Any:
        """Run cells of the user, and return the last one's output."""
        output = None
        for code in cells:
            number = self.session.cells.last + 1
            self.session.submit("python", code)
            output = self.store.wait(tags.USER_REPL_OUT, cell=number)
        wait_for(lambda: not self.session.cells.running)
        return output

    def ask_and_wait(self, question: str) -> None:
        turn = self.session.agent.last + 1
        self.session.submit("ask", question)
        self.store.wait(tags.AGENT, state="done", turn=turn)

    def value(self, expression: str) -> str:
        return self.session.cells.run(expression).output.strip()

    def wait_approval(self, **attrs: Any) -> Any:
        """Wait until code waits for the user's approval."""
        return self.store.wait(tags.APPROVAL, state="waiting", **attrs)

    def decide(self, action: Any, request: str = "", **options: Any) -> None:
        """Answer a request for approval: the first one, or the one with an id."""
        request = request or self.wait_approval().request
        assert self.session.approvals.answer(request, Decision(action, **options))

    def model_messages(self) -> str:
        return str(self.session.agent.agent.messages)

    def join_agent(
        self, on_frame: Callable[[Any], None] = lambda frame: None
    ) -> Callable[..., Any]:
        """Let another program's agent join, and return a function that serves its calls."""
        agent = self.session.joined_agents.join("codex", lambda sentence: None, None)
        calls = AgentCalls(self.session)
        return lambda operation, **args: calls.serve(
            AgentCall(agent, on_frame, is_logged=True), operation, args
        )


def texts(it: Opened, tag: str) -> list[str]:
    return [record.text for record in it.store.records if record.tag == tag]


OpenSession = Callable[..., Opened]
