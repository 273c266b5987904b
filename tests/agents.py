"""An agent's surroundings for tests: prepared answers, a real namespace, a bus whose records are
kept."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mahtab_tui.agent import create_initial_state, create_repl_graph, run_graph
from mahtab_tui.agent.graph import AgentState
from mahtab_tui.agent.nodes import Nodes
from mahtab_tui.bus.records import Decision, Record, get_record
from mahtab_tui.kernel.base import Kernel
from mahtab_tui.llm.scripted import ChatReplay
from mahtab_tui.session.agent import SessionAgent
from mahtab_tui.session.api import SessionState
from tests import tags

COMPLETE = {
    "match": "is_complete",
    "text": '{"is_complete": true, "reasoning": "It is right.", "next_action": ""}',
}
INCOMPLETE = {
    "match": "is_complete",
    "text": '{"is_complete": false, "reasoning": "Half is missing.", "next_action": "Do the rest."}',
}


def code(*blocks: str, words: str = "Let me see.") -> dict[str, Any]:
    """A prepared answer with code."""
    return {"text": "\n\n".join([words, *(f"```python\n{block}\n```" for block in blocks)])}


def words(text: str, **more: Any) -> dict[str, Any]:
    """A prepared answer in words."""
    return {"text": text, **more}


class Desk(logging.Handler):
    """A session in this process, with all the records of its bus."""

    def __init__(
        self, folder: Path, namespace: dict[str, Any] | None = None, kernel: Kernel | None = None
    ) -> None:
        super().__init__()
        self._folder = folder
        self.namespace: dict[str, Any] = {} if namespace is None else namespace
        self.session = SessionState(kernel=kernel)
        self.session.init_namespace(self.namespace)
        host = self.session.agent_host("replay:file")
        assert isinstance(host, SessionAgent)
        self.host = host
        self.records: list[Record] = []
        self._reactions: list[tuple[Callable[[Record], bool], Callable[[Record], object]]] = []
        self.session.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        self.records.append(value)
        for reaction in list(self._reactions):
            if reaction[0](value):
                reaction[1](value)

    def replay(self, *lines: dict[str, Any]) -> ChatReplay:
        path = self._folder / f"answers-{len(list(self._folder.glob('answers-*')))}.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in lines), "utf-8")
        return ChatReplay.from_file(path)

    def when(
        self, tag: str, action: Callable[[Record], object], text: str = "", **attrs: Any
    ) -> None:
        """Do something whenever a record has this tag and these attributes, and `text` in it."""

        def matches(record: Record) -> bool:
            return (
                record.tag == tag and text in record.text and attrs.items() <= record.attrs.items()
            )

        self._reactions.append((matches, action))

    def decide(self, *decisions: Decision) -> None:
        """Ask for approval, and answer one request after the other so."""
        self.host.info.approval = "ask"
        left = list(decisions)
        self.when(
            tags.APPROVAL,
            lambda record: self.host.approvals.answer(record.attrs["request"], left.pop(0)),
            state="waiting",
        )

    def nodes(self, *lines: dict[str, Any], max_turns: int = 5) -> Nodes:
        return Nodes(self.replay(*lines), self.host, max_turns)

    def run(
        self,
        *lines: dict[str, Any],
        prompt: str = "what is it?",
        max_turns: int = 5,
        **options: Any,
    ) -> AgentState:
        graph = create_repl_graph(
            self.replay(*lines), self.host, max_turns, **{"reflection": "always", **options}
        )
        return run_graph(graph, create_initial_state(prompt), self.host)

    def of(self, tag: str) -> list[Record]:
        return [record for record in self.records if record.tag == tag]

    def doings(self) -> list[str]:
        return [str(record.attrs["state"]) for record in self.of(tags.AGENT)]

    def approvals(self) -> list[str]:
        return [str(record.attrs["state"]) for record in self.of(tags.APPROVAL)]

    def notices(self, level: str) -> list[str]:
        return [record.text for record in self.of(tags.NOTICE) if record.attrs["level"] == level]


def without_surroundings(text: str) -> str:
    """Messages to a model, without the surroundings of its code."""
    return re.sub(r"<surroundings>\n.*?\n</surroundings>\n*", "", text, flags=re.DOTALL)


def last_text(state: AgentState, kind: str) -> str:
    """The text of the last message of a kind ("human", "ai")."""
    return next(
        str(message.text) for message in reversed(state["messages"]) if message.type == kind
    )
