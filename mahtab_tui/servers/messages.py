"""Mends and judges what servers send, so that nothing unreadable leaves a call waiting or makes all
tools unusable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import anyio.abc
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

_SURROGATES = re.compile(
    rb"\\\\"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""A backslash, a pair of surrogates, or one alone, in JSON."""
_KEPT = (2, 12)
"""Lengths of the first two."""
_OF_A_MESSAGE = re.compile(rb"""["']jsonrpc["']|\A\s*\{\s*\Z""")
"""Occurs in messages, also broken ones, and not in what a server prints by mistake."""
_VERSION = "2025-11-25"
"""Version of the protocol, for descriptions of tools."""
_ANY = {"type": "object"}
"""The schema of a tool that takes any arguments."""

ReceivedStream = anyio.abc.ObjectReceiveStream[SessionMessage | Exception]


def mended(data: bytes) -> bytes:
    """Replace by U+FFFD what makes JSON unreadable although the rest is sound.

    These are halves of surrogate pairs, as a cut emoji leaves, and bytes that are not UTF-8.
    """
    text = data.decode("utf-8-sig", "replace").encode()
    return _SURROGATES.sub(lambda found: found[0] if len(found[0]) in _KEPT else rb"\ufffd", text)


def answered_by(line: bytes, waiting: dict[str, Any]) -> list[Any]:
    """Return the requests that an unreadable line answers; all that wait, if it does not tell.

    waiting: ids of requests, by their text.
    """
    try:
        message = json.loads(mended(line))
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        return list(waiting.values()) if _OF_A_MESSAGE.search(line) else []
    if "method" in message or not message.keys() & {"jsonrpc", "result", "error"}:
        return []  # no answer
    if message.get("id") is None:
        return list(waiting.values())
    return [waiting[name]] if (name := str(message["id"])) in waiting else []


class MendedTools(anyio.abc.ObjectReceiveStream[SessionMessage | Exception]):
    """Messages of a server, in which a tool with an odd description does not make the others
    unusable."""

    def __init__(self, received: ReceivedStream, note: Callable[[str], object]) -> None:
        """note: called with a sentence about each odd tool."""
        self._received = received
        self._note = note

    async def receive(self) -> SessionMessage | Exception:
        item = await self._received.receive()
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            if isinstance(tools := result.get("tools"), list):
                result["tools"] = list(self._usable(tools))
        return item

    async def aclose(self) -> None:
        await self._received.aclose()

    def _usable(self, tools: list[Any]) -> Iterator[dict[str, Any]]:
        for number, tool in enumerate(tools, 1):
            name = (
                repr(tool["name"])[:100]
                if isinstance(tool, dict) and "name" in tool
                else f"number {number}"
            )
            fault = _fault(tool)
            usable = (
                tool
                if fault is None
                else next((each for each in _simpler(tool) if _fault(each) is None), None)
            )
            if usable is None:
                self._note(f"[the tool {name} was left out: {fault}]")
                continue
            if fault is not None:
                self._note(
                    f"[the description of the tool {name} does not follow the protocol: {fault}]"
                )
            yield usable


def _simpler(tool: Any) -> Iterator[Any]:
    """Yield descriptions of a tool with less of what may be odd in its own."""
    if isinstance(tool, dict):
        schema, annotations = tool.get("inputSchema"), tool.get("annotations")
        plain = {
            key: tool[key]
            for key in ("name", "title", "description")
            if isinstance(tool.get(key), str)
        }
        if isinstance(annotations, dict) and annotations.get("readOnlyHint") is True:
            plain["annotations"] = {"readOnlyHint": True}
        if isinstance(schema, dict) and schema.get("type", "object") in (
            "object",
            ["object", "null"],
        ):
            yield {**plain, "inputSchema": {**schema, **_ANY}}
        yield {**plain, "inputSchema": _ANY}


def _fault(tool: Any) -> str | None:
    """Return in a few words what is wrong with the description of a tool."""
    try:
        validate_server_result("tools/list", _VERSION, {"tools": [tool]})
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'][2:])) or 'it'}: {first['msg']}"[:300]
    return None
