"""Open spans of a session, with the attributes of OpenTelemetry's semantic conventions for generative AI (1.41, in development)."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from mahtab_tui.bus.prompt import shorten

_LONGEST = 100_000
"""Characters of a text in a span."""
_PROVIDERS = {"claude": "anthropic"}
"""The conventions' names of providers, where they differ from ours."""


class OpenSpans:
    """Begins and ends spans by keys. What is done with a key that is not open has no effect. For one thread."""

    def __init__(self, tracer: Tracer, conversation: str, told: Callable[[str], str] | None) -> None:
        """conversation: the session's id. told: masks texts; None to leave them out."""
        self._tracer = tracer
        self._conversation = conversation
        self._told = told
        self._open: dict[Hashable, Span] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._open

    @property
    def newest_first(self) -> list[Hashable]:
        """The keys of all open spans."""
        return list(reversed(self._open))

    def attribute(self, key: Hashable, name: str) -> Any:
        """Return an attribute of an open span; None if it has none."""
        return (getattr(self._open.get(key), "attributes", None) or {}).get(name)

    def begin_tool(self, key: Hashable, name: str, call: str, time: float, parent: Hashable, agent: str | None = None) -> None:
        """Begin the span of a tool call, or of code that runs. call: its id. agent: who has written the code, if it is not the session's model."""
        self.begin(key, "execute_tool", name, time, parent=parent)
        self.set(key, {"gen_ai.tool.name": name, "gen_ai.tool.type": "function", "gen_ai.tool.call.id": call, "gen_ai.agent.name": agent})

    def begin(
        self,
        key: Hashable,
        operation: str,
        name: str,
        time: float,
        *,
        parent: Hashable = None,
        model: str = "",
        provider: str = "",
    ) -> Hashable:
        """Begin a span. name: of the agent or tool; empty to name the span by the model. model: with its provider before a colon. Returns the key."""
        self.end(key, time)
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
        kind = SpanKind.CLIENT if operation in ("chat", "embeddings") else SpanKind.INTERNAL
        span = self._tracer.start_span(f"{operation} {name or model}".strip(), context, kind, given, start_time=_nanoseconds(time))
        self._open[key] = span
        return key

    def set(self, key: Hashable, attributes: Mapping[str, Any]) -> None:
        """Set the attributes that are not None."""
        if (span := self._open.get(key)) is not None:
            span.set_attributes({name: value for name, value in attributes.items() if value is not None})

    def text(self, key: Hashable, name: str, text: str, written: Callable[[str], str] = str) -> None:
        """Add a text, if the user wants texts in spans. written: returns the attribute, after the text was masked and shortened."""
        if self._told is not None and key in self._open:
            self.set(key, {name: written(shorten(self._told(text), _LONGEST))})

    def message(self, key: Hashable, name: str, role: str, text: str, reason: str = "") -> None:
        """Add a message as the conventions write it. reason: why a model has stopped writing it."""
        ended = {"finish_reason": reason} if reason else {}

        def written(told: str) -> str:
            return json.dumps([{"role": role, "parts": [{"type": "text", "content": told}], **ended}], ensure_ascii=False)

        self.text(key, name, text, written)

    def end(self, key: Hashable, time: float, *, error: str = "", reason: str = "") -> None:
        """End a span, if it is open. reason: why a model has stopped writing."""
        cut = self.attribute(key, "gen_ai.response.finish_reasons") is not None
        span = self._open.pop(key, None)
        if span is None:
            return
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        if reason and not cut:
            span.set_attribute("gen_ai.response.finish_reasons", [reason])
        span.end(_nanoseconds(time))

    def rename(self, key: Hashable, name: str) -> None:
        if (span := self._open.get(key)) is not None:
            span.update_name(name)


def _nanoseconds(time: float) -> int:
    return int(time * 1_000_000_000)
