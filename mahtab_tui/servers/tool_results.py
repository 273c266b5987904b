"""Results of tools as the kernel gets them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mahtab_tui.worker.link.json_structure import exceeds_structure_limit

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

MAX_ERROR_CHARS = 4_000
MAX_STRUCTURE_BYTES = 2 * 1024 * 1024
"""Bytes of JSON outside its strings; more would keep other threads waiting."""


def result_parts(result: CallToolResult, output_schema: Any) -> list[dict[str, Any]]:
    """Return text, JSON, pictures, and other data as base64."""
    value: Any = result.structured_content
    if value is None:
        return [_part(block) for block in result.content]
    properties = output_schema.get("properties") if isinstance(output_schema, Mapping) else None
    # Structured content must be an object, so a server has put another value into one.
    is_wrapped = isinstance(properties, Mapping) and set(properties) == {"result"}
    if is_wrapped and isinstance(value, Mapping) and set(value) == {"result"}:
        value = value["result"]
    # The text of a structured result may itself be JSON.
    value_part: dict[str, Any] = {"kind": "json", "value": value}
    if isinstance(value, str):
        value_part = _text_part(value)
    other_parts = [_part(block) for block in result.content if block.type != "text"]
    return [value_part, *other_parts]


def error_text(result: CallToolResult) -> str:
    """Return the text of an error, shortened; empty if the server gives none."""
    text = "\n".join(map(_block_text, result.content)).strip()
    if not text and result.structured_content:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if len(text) <= MAX_ERROR_CHARS:
        return text
    return f"{text[:MAX_ERROR_CHARS]}… ({len(text):,} characters)"


def _block_text(block: ContentBlock) -> str:
    """Return the text of a block, of the resource embedded in it, or about the resource to which it
    is a link; empty if it has none."""
    if block.type == "text":
        return block.text
    if block.type == "resource":
        return str(getattr(block.resource, "text", ""))
    if block.type == "resource_link":
        return f"{block.description or block.title or block.name}: {block.uri}"
    return ""


def _part(block: ContentBlock) -> dict[str, Any]:
    """Return a block of a result as the kernel gets it."""
    match block.type:
        case "text":
            return _text_part(block.text)
        case "image":
            return {"kind": "picture", "mime": block.mime_type, "data": block.data}
        case "audio":
            return {"kind": "bytes", "data": block.data}
        case "resource":
            text = getattr(block.resource, "text", None)
            if text is not None:
                return {"kind": "text", "text": text}
            return {"kind": "bytes", "data": getattr(block.resource, "blob", "")}
        case "resource_link":
            link = {"uri": str(block.uri), "name": block.name, "mime": block.mime_type}
            return {"kind": "json", "value": link}


def _text_part(text: str) -> dict[str, Any]:
    """Return a text as JSON, if it is an object or a list."""
    stripped_text = text.strip()
    looks_like_json = stripped_text[:1] in ("{", "[") and stripped_text[-1:] in ("}", "]")
    if looks_like_json and not exceeds_structure_limit(
        text.encode(errors="replace"), MAX_STRUCTURE_BYTES
    ):
        with suppress(ValueError, RecursionError):
            return {"kind": "json", "value": json.loads(text)}
    return {"kind": "text", "text": text}
