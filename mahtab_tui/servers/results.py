"""Results of tools, as plain data for the kernel."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mahtab_tui.kernel.worker.frames import check_bare

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

LONGEST_ERROR = 4_000
MOST_OUTSIDE_TEXTS = 2 * 1024 * 1024
"""Bytes of JSON outside its strings. Reading more would keep all other threads waiting for
seconds."""


def parts_of(result: CallToolResult, output_schema: Any) -> list[dict[str, Any]]:
    """Return the parts of a result: text, JSON, pictures, and other data as base64."""
    if result.structured_content is not None:
        value: Any = result.structured_content
        if isinstance(value, Mapping) and set(value) == {"result"} and _wraps(output_schema):
            value = value["result"]
        others = [
            part for block in result.content if block.type != "text" for part in _parts(block)
        ]
        return [{"kind": "json", "value": value}, *others]
    return [part for block in result.content for part in _parts(block)]


def error_text(content: Sequence[ContentBlock]) -> str:
    text = "\n".join(block.text for block in content if block.type == "text").strip()
    return (
        text
        if len(text) <= LONGEST_ERROR
        else f"{text[:LONGEST_ERROR]}… ({len(text):,} characters)"
    )


def _wraps(schema: Any) -> bool:
    """Whether a server has put a value into an object, since structured content must be one: with
    the only property ``result``."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return isinstance(properties, Mapping) and set(properties) == {"result"}


def _parts(block: ContentBlock) -> list[dict[str, Any]]:
    match block.type:
        case "text":
            return [_text(block.text)]
        case "image":
            return [{"kind": "picture", "mime": block.mime_type, "data": block.data}]
        case "audio":
            return [{"kind": "bytes", "mime": block.mime_type, "data": block.data, "uri": ""}]
        case "resource":
            resource = block.resource
            if (text := getattr(resource, "text", None)) is not None:
                return [{"kind": "text", "text": text}]
            return [
                {
                    "kind": "bytes",
                    "mime": resource.mime_type or "",
                    "data": getattr(resource, "blob", ""),
                    "uri": str(resource.uri),
                }
            ]
        case "resource_link":
            return [
                {
                    "kind": "json",
                    "value": {"uri": str(block.uri), "name": block.name, "mime": block.mime_type},
                }
            ]


def _text(text: str) -> dict[str, Any]:
    """Return JSON as a value, and other text as it is."""
    if text[:1] in ("{", "[") and text.rstrip()[-1:] in ("}", "]"):
        try:
            check_bare(text.encode(errors="replace"), MOST_OUTSIDE_TEXTS)
            return {"kind": "json", "value": json.loads(text)}
        except (ValueError, RecursionError):
            pass
    return {"kind": "text", "text": text}
