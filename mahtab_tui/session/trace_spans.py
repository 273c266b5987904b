"""Folds the records of a session to spans, by OpenTelemetry's semantic conventions for generative AI (1.41, in development).

``invoke_agent`` for a question with its answer and for each call of a search, ``chat`` for each call of a model, ``execute_tool`` for each tool
call and cell of a model or an agent, ``embeddings``. Without content: only names, counts, times and costs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from mahtab_tui.bus import records
from mahtab_tui.bus.prompt import shorten
from mahtab_tui.bus.records import Record

_OTHER = "_OTHER"
"""`error.type` of an error whose kind is not known."""
_LONGEST = 100_000
"""Characters of a text in a span."""
_PROVIDERS = {"claude": "anthropic"}
"""The conventions' names of providers, where they differ from ours."""
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


class SpanFold:
    """Makes spans from records. For one thread."""

    def __init__(self, tracer: Tracer, conversation: str, model: Callable[[], str], content: Content | None) -> None:
        """conversation: the session's id. model: returns the full name of the model that answers. content: None to leave texts out."""
        self._tracer = tracer
        self._conversation = conversation
        self._model = model
        self._content = content
        self._open: dict[Hashable, Span] = {}
        self._counted: set[Hashable] = set()
        """Open calls of models whose usage is known: further usage belongs to another call."""
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
        """Take in a record."""
        self._last = max(self._last, record.time)
        if (fold := self._folds.get(type(record))) is not None:
            fold(record)

    def close(self) -> None:
        """End what is open: the session ends."""
        for key in reversed(list(self._open)):
            self._end(key, self._last, error="cancelled")

    # A question

    def _question(self, record: records.UserChat) -> None:
        key = ("turn", record.turn)
        self._turn, self._answer = record.turn, ""
        self._begin(key, "invoke_agent", "mahtab-tui", record.time, SpanKind.INTERNAL, model=self._model())
        self._text(key, "gen_ai.input.messages", _message("user", record.text))

    def _agent(self, record: records.Agent) -> None:
        chat = ("chat", record.turn)
        if record.state == "thinking" or record.state in ("reflecting", "summarising"):
            if record.state != "thinking" or chat not in self._open:
                self._end(chat, record.time)
                model = self._model() if record.state == "thinking" else ""  # others may check and summarise
                self._begin(chat, "chat", "", record.time, SpanKind.CLIENT, parent=("turn", record.turn), model=model)
        elif record.state in _ENDS:
            failed = record.state == "failed"
            self._end(chat, record.time, error=_OTHER if failed else "")
            self._text(("turn", record.turn), "gen_ai.output.messages", _message("assistant", self._answer))
            self._end(("turn", record.turn), record.time, error=_OTHER if failed else "")
            self._turn = None

    def _words(self, record: records.AssistantChat) -> None:
        self._answer = record.text
        self._said(("chat", record.turn), record.text, record.time, "stopped" if record.stopped else "stop")

    def _said(self, key: Hashable, text: str, time: float, reason: str = "stop") -> None:
        """A model has given its answer."""
        self._text(key, "gen_ai.output.messages", _message("assistant", text, reason))
        self._end(key, time, reason=reason)

    def _tool(self, record: records.AssistantTool) -> None:
        key = ("tool", record.call)
        if record.state == "running":
            self._end(("chat", record.turn), record.time, reason="tool_call")
            self._begin_tool(key, record.name, record.call or "", record.time, ("turn", record.turn))
            self._text(key, "gen_ai.tool.call.arguments", record.arguments)
        else:
            self._text(key, "gen_ai.tool.call.result", record.text)
            self._end(key, record.time or self._last, error=record.state if record.state in _FAILED else "")

    # Cells

    def _cell_begins(self, record: records.AssistantReplIn) -> None:
        key = ("cell", record.cell)
        self._end(("chat", record.turn), record.time)
        call = record.call if record.turn is None else f"{record.turn}.{record.step}.{record.block}"
        self._begin_tool(key, "python", call or "", record.time, ("turn", record.turn), agent=record.party if record.guest is not None else None)
        if self._content is not None and self._content.hides_code(record.text):
            self._hidden.add(record.cell)
        else:
            self._text(key, "gen_ai.tool.call.arguments", json.dumps({"code": record.text}))

    def _cell_ends(self, record: records.AssistantReplOut) -> None:
        key = ("cell", record.cell)
        if record.late or record.status is None:
            return
        hidden = record.cell in self._hidden or self._content is None or self._content.hides_cell(record.cell or 0)
        if not hidden:
            self._text(key, "gen_ai.tool.call.result", record.text)
        self._hidden.discard(record.cell)
        self._end(key, record.time, error="" if record.status == "ok" else record.status)

    # Calls of models

    def _usage(self, record: records.Usage) -> None:
        key: Hashable = ("chat", record.turn)
        if record.tree is not None:
            key = ("asks", record.tree, record.node) if ("asks", record.tree, record.node) in self._open else ("node", record.tree, record.node)
        elif record.source == "embedding":
            key = self._begin(("usage",), "embeddings", "", record.time, SpanKind.CLIENT, parent=("turn", self._turn), model=record.model)
        elif key in self._counted or key not in self._open:  # it was asked again; or a suggestion
            self._end(key, record.time)
            model = self._model() if record.source == "agent" else ""
            self._begin(key, "chat", "", record.time, SpanKind.CLIENT, parent=("turn", record.turn), model=model)
        self._counted.add(key)
        counts = {
            "gen_ai.response.model": (record.model if record.source != "embedding" else record.model.partition(":")[2]) or None,
            "gen_ai.usage.input_tokens": record.input_tokens,
            "gen_ai.usage.output_tokens": record.output_tokens or None,
            "gen_ai.usage.cache_read.input_tokens": record.cache_read_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": record.cache_creation_tokens or None,
            "gen_ai.usage.cost": record.cost,
            "mahtab.usage.estimated": record.estimated or None,
        }
        self._set(key, counts)
        if record.source in ("reflection", "summary", "suggestion") and record.model:
            self._set(key, {"gen_ai.request.model": record.model})
            self._open[key].update_name(f"chat {record.model}")
        if record.cut:
            self._set(key, {"gen_ai.response.finish_reasons": ["length"]})
        if record.source in ("reflection", "summary", "suggestion", "embedding"):
            self._end(key, record.time)

    # Searches

    def _node_begins(self, record: records.SearchBegin) -> None:
        key, plain = ("node", record.tree, record.node), record.kind == "llm"
        parent = ("node", record.tree, record.parent) if record.parent is not None else ("cell", record.cell)
        if plain:
            self._begin(key, "chat", "", record.time, SpanKind.CLIENT, parent=parent, model=record.model)
        else:
            self._begin(key, "invoke_agent", "rlm", record.time, SpanKind.INTERNAL, parent=parent, model=record.model)
        self._set(
            key, {"gen_ai.agent.id": None if plain else record.node, "mahtab.search.depth": record.depth, "mahtab.search.characters": record.chars}
        )
        self._text(key, "gen_ai.input.messages", _message("user", record.text))

    def _node_asks(self, record: records.SearchTurn) -> None:
        key, node = ("asks", record.tree, record.node), ("node", record.tree, record.node)
        if key not in self._open and self._is_agent(node):
            model = str(getattr(self._open[node], "attributes", {}).get("gen_ai.request.model", ""))
            self._begin(key, "chat", "", record.time, SpanKind.CLIENT, parent=node, model=model, provider=_provider_of(self._open[node]))

    def _node_words(self, record: records.SearchChat) -> None:
        self._said(("asks", record.tree, record.node), record.text, record.time)

    def _node_runs(self, record: records.SearchReplIn) -> None:
        key = ("runs", record.tree, record.node)
        self._begin_tool(key, "python", f"{record.node}.{record.turn}", record.time, ("node", record.tree, record.node))
        self._text(key, "gen_ai.tool.call.arguments", json.dumps({"code": record.text}))

    def _node_ran(self, record: records.SearchReplOut) -> None:
        key = ("runs", record.tree, record.node)
        self._text(key, "gen_ai.tool.call.result", record.text)
        self._end(key, record.time, error="" if record.status == "ok" else record.status)

    def _node_ends(self, record: records.SearchFinal) -> None:
        key, error = ("node", record.tree, record.node), record.state if record.state in ("error", "stopped") else ""
        for inner in ("asks", "runs"):
            self._end((inner, record.tree, record.node), record.time, error=error)
        self._text(key, "gen_ai.output.messages", _message("assistant", record.text))
        self._end(key, record.time, error=error)

    def _is_agent(self, key: Hashable) -> bool:
        span = self._open.get(key)
        return span is not None and getattr(span, "kind", None) is SpanKind.INTERNAL

    # Spans

    def _begin_tool(self, key: Hashable, name: str, call: str, time: float, parent: Hashable, agent: str | None = None) -> None:
        self._begin(key, "execute_tool", name, time, SpanKind.INTERNAL, parent=parent)
        self._set(key, {"gen_ai.tool.name": name, "gen_ai.tool.type": "function", "gen_ai.tool.call.id": call, "gen_ai.agent.name": agent})

    def _begin(
        self,
        key: Hashable,
        operation: str,
        name: str,
        time: float,
        kind: SpanKind,
        *,
        parent: Hashable = None,
        model: str = "",
        provider: str = "",
    ) -> Hashable:
        """Begin a span. name: of the agent or tool; empty to name the span by the model. parent: ignored if it is not open."""
        self._end(key, time)
        above = self._open.get(parent)
        context = None if above is None else set_span_in_context(above)
        known, _, rest = model.partition(":")
        provider, model = (provider, model) if provider or not rest else (known, rest)
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.conversation.id": self._conversation,
            "gen_ai.agent.name": name if operation == "invoke_agent" else "",
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider) or (_PROVIDERS.get(model, model) if operation != "execute_tool" else ""),
            "gen_ai.request.model": model,
        }
        given = {name: value for name, value in attributes.items() if value}
        span = self._tracer.start_span(f"{operation} {name or model}".strip(), context, kind, given, start_time=_nanoseconds(time))
        self._open[key] = span
        return key

    def _set(self, key: Hashable, attributes: Mapping[str, Any]) -> None:
        if (span := self._open.get(key)) is not None:
            span.set_attributes({name: value for name, value in attributes.items() if value is not None})

    def _text(self, key: Hashable, name: str, text: str) -> None:
        """Add a text, if the user wants texts in spans."""
        if self._content is not None and key in self._open:
            self._set(key, {name: shorten(self._content.told(text), _LONGEST)})

    def _end(self, key: Hashable, time: float, *, error: str = "", reason: str = "") -> None:
        """End a span, if it is open. reason: why a model has stopped writing."""
        span = self._open.pop(key, None)
        self._counted.discard(key)
        if span is None:
            return
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        if reason and "gen_ai.response.finish_reasons" not in getattr(span, "attributes", {}):
            span.set_attribute("gen_ai.response.finish_reasons", [reason])
        span.end(_nanoseconds(time))


def _provider_of(span: Span) -> str:
    return str(getattr(span, "attributes", {}).get("gen_ai.provider.name", ""))


def _message(role: str, text: str, reason: str = "") -> str:
    message: dict[str, Any] = {"role": role, "parts": [{"type": "text", "content": text}]}
    return json.dumps([message | ({"finish_reason": reason} if reason else {})], ensure_ascii=False)


def _nanoseconds(time: float) -> int:
    return int(time * 1_000_000_000)
