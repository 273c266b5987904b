"""Folds the records of a session to spans, by OpenTelemetry's semantic conventions for generative AI (1.41, in development).

``invoke_agent`` for a question with its answer and for each call of a search, ``chat`` for each call of a model, ``execute_tool`` for each tool
call and cell of a model or an agent, ``embeddings``. Without content: only names, counts, times and costs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from opentelemetry.trace import Tracer

from mahtab_tui.bus import records
from mahtab_tui.bus.records import Record
from mahtab_tui.session.trace_spans import OpenSpans

_OTHER = "_OTHER"
"""`error.type` of an error whose kind is not known."""
_ENDS = frozenset({"done", "stopped", "failed"})
_FAILED = frozenset({"error", "refused"})


class Content(NamedTuple):
    """How texts get into spans."""

    told: Callable[[str], str]
    """Masks what is not told."""
    hides_code: Callable[[str], bool]
    """Whether code names a private variable, so that neither it nor its output is told."""
    hides_cell: Callable[[int], bool]
    """Whether a cell that has ended has used one, so that its output is not told."""


class TraceFold:
    """Makes spans from records. For one thread."""

    def __init__(self, tracer: Tracer, conversation: str, model: Callable[[], str], content: Content | None) -> None:
        """conversation: the session's id. model: returns the full name of the model that answers. content: None to leave texts out."""
        self._spans = OpenSpans(tracer, conversation, None if content is None else content.told)
        self._model = model
        self._content = content
        self._hidden: set[int | None] = set()
        """Running cells whose texts are not told."""
        self._turn: int | None = None
        self._answer = ""
        self._last = 0.0
        self._folds: Mapping[type[Record], Callable[[Any], None]] = {
            records.UserChat: self._question,
            records.Agent: self._agent,
            records.AssistantChat: self._words,
            records.AssistantTool: self._tool,
            records.AssistantReplIn: self._cell_begins,
            records.AssistantReplOut: self._cell_ends,
            records.Usage: self._usage,
            records.SearchBegin: self._node_begins,
            records.SearchTurn: self._node_asks,
            records.SearchChat: self._node_words,
            records.SearchReplIn: self._node_runs,
            records.SearchReplOut: self._node_ran,
            records.SearchFinal: self._node_ends,
        }

    def fold(self, record: Record) -> None:
        self._last = max(self._last, record.time)
        if (fold := self._folds.get(type(record))) is not None:
            fold(record)

    def close(self) -> None:
        """End what is open: the session ends."""
        for key in self._spans.newest_first:
            self._spans.end(key, self._last, error="cancelled")

    # A question

    def _question(self, record: records.UserChat) -> None:
        key = ("turn", record.turn)
        self._turn, self._answer = record.turn, ""
        self._spans.begin(key, "invoke_agent", "mahtab-tui", record.time, model=self._model())
        self._spans.message(key, "gen_ai.input.messages", "user", record.text)

    def _agent(self, record: records.Agent) -> None:
        chat = ("chat", record.turn)
        if record.state in ("thinking", "reflecting", "summarising"):
            if record.state != "thinking" or chat not in self._spans:
                self._spans.end(chat, record.time)
                model = self._model() if record.state == "thinking" else ""  # others may check and summarise
                self._spans.begin(chat, "chat", "", record.time, parent=("turn", record.turn), model=model)
        elif record.state in _ENDS:
            failed = record.state == "failed"
            self._spans.end(chat, record.time, error=_OTHER if failed else "", reason="stopped" if record.state == "stopped" else "")
            self._spans.message(("turn", record.turn), "gen_ai.output.messages", "assistant", self._answer)
            self._spans.end(("turn", record.turn), record.time, error=_OTHER if failed else "")
            self._turn = None

    def _words(self, record: records.AssistantChat) -> None:
        self._answer = record.text
        chat = ("chat", record.turn)
        self._spans.message(chat, "gen_ai.output.messages", "assistant", record.text, "" if record.stopped else "stop")
        if not record.stopped:  # otherwise the end of the turn tells whether the user has stopped it, or it has failed
            self._spans.end(chat, record.time, reason="stop")

    def _tool(self, record: records.AssistantTool) -> None:
        key = ("tool", record.call)
        if record.state == "running":
            self._spans.end(("chat", record.turn), record.time, reason="tool_call")
            self._spans.begin_tool(key, record.name, record.call or "", record.time, ("turn", record.turn))
            self._spans.text(key, "gen_ai.tool.call.arguments", record.arguments)
        else:
            self._spans.text(key, "gen_ai.tool.call.result", record.text)
            self._spans.end(key, record.time or self._last, error=record.state if record.state in _FAILED else "")

    # Cells

    def _cell_begins(self, record: records.AssistantReplIn) -> None:
        key = ("cell", record.cell)
        self._spans.end(("chat", record.turn), record.time)
        call = record.call if record.turn is None else f"{record.turn}.{record.step}.{record.block}"
        self._spans.begin_tool(
            key, "python", call or "", record.time, ("turn", record.turn), agent=record.party if record.guest is not None else None
        )
        if self._content is not None and self._content.hides_code(record.text):
            self._hidden.add(record.cell)
        else:
            self._spans.text(key, "gen_ai.tool.call.arguments", record.text, _code)

    def _cell_ends(self, record: records.AssistantReplOut) -> None:
        key = ("cell", record.cell)
        if record.late or record.status is None:
            return
        hidden = record.cell in self._hidden or self._content is None or self._content.hides_cell(record.cell or 0)
        if not hidden:
            self._spans.text(key, "gen_ai.tool.call.result", record.text)
        self._hidden.discard(record.cell)
        self._spans.end(key, record.time, error="" if record.status == "ok" else record.status)

    # Calls of models

    def _usage(self, record: records.Usage) -> None:
        key: Hashable = ("chat", record.turn)
        if record.tree is not None:
            key = ("asks", record.tree, record.node) if ("asks", record.tree, record.node) in self._spans else ("node", record.tree, record.node)
        elif record.source == "embedding":
            key = self._spans.begin(("usage",), "embeddings", "", record.time, parent=("turn", self._turn), model=record.model)
        elif key not in self._spans or self._spans.attribute(key, "gen_ai.usage.input_tokens") is not None:  # it was asked again; or a suggestion
            self._spans.end(key, record.time)
            model = self._model() if record.source == "agent" else ""
            self._spans.begin(key, "chat", "", record.time, parent=("turn", record.turn), model=model)
        counts = {
            "gen_ai.response.model": (record.model if record.source != "embedding" else record.model.partition(":")[2]) or None,
            "gen_ai.usage.input_tokens": record.input_tokens,
            "gen_ai.usage.output_tokens": record.output_tokens or None,
            "gen_ai.usage.cache_read.input_tokens": record.cache_read_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": record.cache_creation_tokens or None,
            "gen_ai.usage.cost": record.cost,
            "mahtab.usage.estimated": record.estimated or None,
        }
        self._spans.set(key, counts)
        if record.source in ("reflection", "summary", "suggestion") and record.model:
            self._spans.set(key, {"gen_ai.request.model": record.model})
            self._spans.rename(key, f"chat {record.model}")
        if record.cut:
            self._spans.set(key, {"gen_ai.response.finish_reasons": ["length"]})
        if record.source in ("reflection", "summary", "suggestion", "embedding"):
            self._spans.end(key, record.time)

    # Searches

    def _node_begins(self, record: records.SearchBegin) -> None:
        key, plain = ("node", record.tree, record.node), record.kind == "llm"
        parent = ("node", record.tree, record.parent) if record.parent is not None else ("cell", record.cell)
        operation, name, id = ("chat", "", None) if plain else ("invoke_agent", "rlm", record.node)
        self._spans.begin(key, operation, name, record.time, parent=parent, model=record.model)
        self._spans.set(key, {"gen_ai.agent.id": id, "mahtab.search.depth": record.depth, "mahtab.search.characters": record.chars})
        self._spans.message(key, "gen_ai.input.messages", "user", record.text)

    def _node_asks(self, record: records.SearchTurn) -> None:
        key, node = ("asks", record.tree, record.node), ("node", record.tree, record.node)
        if key not in self._spans and self._spans.attribute(node, "gen_ai.operation.name") == "invoke_agent":
            provider, model = (str(self._spans.attribute(node, f"gen_ai.{name}") or "") for name in ("provider.name", "request.model"))
            self._spans.begin(key, "chat", "", record.time, parent=node, model=model, provider=provider)

    def _node_words(self, record: records.SearchChat) -> None:
        key = ("asks", record.tree, record.node)
        self._spans.message(key, "gen_ai.output.messages", "assistant", record.text, "stop")
        self._spans.end(key, record.time, reason="stop")

    def _node_runs(self, record: records.SearchReplIn) -> None:
        key = ("runs", record.tree, record.node)
        self._spans.begin_tool(key, "python", f"{record.node}.{record.turn}", record.time, ("node", record.tree, record.node))
        self._spans.text(key, "gen_ai.tool.call.arguments", record.text, _code)

    def _node_ran(self, record: records.SearchReplOut) -> None:
        key = ("runs", record.tree, record.node)
        self._spans.text(key, "gen_ai.tool.call.result", record.text)
        self._spans.end(key, record.time, error="" if record.status == "ok" else record.status)

    def _node_ends(self, record: records.SearchFinal) -> None:
        key, error = ("node", record.tree, record.node), record.state if record.state in ("error", "stopped") else ""
        for inner in ("asks", "runs"):
            self._spans.end((inner, record.tree, record.node), record.time, error=error)
        self._spans.message(key, "gen_ai.output.messages", "assistant", record.text)
        self._spans.end(key, record.time, error=error)


def _code(text: str) -> str:
    return json.dumps({"code": text}, ensure_ascii=False)
