"""Sessions in which an agent of another program answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from mahtab_tui.bus.records import AssistantChatStream, Record, RecordHandler, Window
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.open_session import open_door
from mahtab_tui.settings.model import load_settings
from tests import tags, warm
from tests.integration.sessions import Opened, Watched
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
END_STATES = ("done", "failed", "stopped")


class UnstoredRecords(RecordHandler):
    """Keeps records that no store gets: pieces of answers, and how full the agent's context is."""

    kinds = (AssistantChatStream, Window)

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []

    def fold(self, record: Record) -> None:
        self.records.append(record)


class Answering(Opened):
    """A session whose questions an agent answers."""

    def __init__(self, session: Session, store: Watched) -> None:
        super().__init__(session, store)
        self.unstored = UnstoredRecords()

    @classmethod
    def begin(
        cls, command: Sequence[str], past: Sequence[Record], agent: dict[str, Any], **values: Any
    ) -> Self:
        definition = {"command": list(command), "env": {"PYTHONPATH": str(ROOT)}, **agent}
        settings = load_settings(model="acp:other", acp={"other": definition}, **values)
        it = cls.make(settings, kernel=ProcessKernel(), past=past, open_door=open_door)
        it.session.log.addHandler(it.unstored)
        it.session.start()
        return it

    def begin_question(self, question: str) -> int:
        """Ask, and return the number of the question."""
        turn = self.session.agent.last + 1
        self.session.submit("ask", question)
        return turn

    def wait_end(self, turn: int) -> str:
        """Wait for the end of an answer, and return how it has ended."""

        def ends() -> list[str]:
            states = [record.state for record in self.store.of(tags.AGENT, turn=turn)]
            return [state for state in states if state in END_STATES]

        wait_for(ends)
        return ends()[0]

    def ask(self, question: str) -> str:
        """Ask, wait for the end of the answer, and return its words."""
        turn = self.begin_question(question)
        assert self.wait_end(turn) == "done", self.notices
        return self.answer(turn)

    def answer(self, turn: int) -> str:
        return "".join(record.text for record in self.store.of(tags.ASSISTANT_CHAT, turn=turn))

    @property
    def notices(self) -> list[str]:
        return [record.text for record in self.store.of(tags.NOTICE)]

    @property
    def tools(self) -> dict[str, Any]:
        """The newest record of each tool call, by its name."""
        return {record.name: record for record in self.store.of(tags.ASSISTANT_TOOL)}


OpenAnswering = Callable[..., Answering]


@pytest.fixture
def answering(project: Path) -> Iterator[OpenAnswering]:
    """Open a session in which the agent of `outside_agent.py` answers, or another command; all are
    closed with the test."""
    opened: list[Answering] = []

    def open_it(
        *abilities: str,
        command: Sequence[str] = (),
        past: Sequence[Record] = (),
        agent: dict[str, Any] | None = None,
        approval: str = "ask",
        **values: Any,
    ) -> Answering:
        program = command or warm.agent_command(*abilities)
        it = Answering.begin(program, past, agent or {}, approval=approval, **values)
        opened.append(it)
        return it

    yield open_it
    for it in opened:
        it.session.close()


@pytest.fixture
def answered(answering: OpenAnswering) -> Answering:
    """A session whose agent has answered a question, and is idle."""
    it = answering()
    it.ask("say hello")
    return it
