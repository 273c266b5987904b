"""Reads the lines and the events of an answer that a model's service streams."""

from __future__ import annotations

import codecs
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from mahtab_tui.llm.base import ModelError, ServiceError
from mahtab_tui.llm.failures import NOT_AN_ANSWER

MAX_LINE_BYTES = 16_000_000
"""The longest line, and the longest event, that is read."""
_OTHER_FIELDS = (b"", b"id", b"retry")
"""Names of fields that say nothing about an answer. A comment is a field without a name."""


def read_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut a stream into lines, which end with LF, CRLF or CR.

    Raises:
        ModelError: A line is too long.
    """
    line_start = bytearray()
    after_cr = False
    # An empty piece would part the two characters of a CRLF.
    for piece in filter(None, pieces):
        if after_cr:
            piece = piece.removeprefix(b"\n")
        after_cr = piece.endswith(b"\r")
        lines = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        unfinished_line = lines.pop()
        for line in lines:
            yield bytes(line_start + line)
            line_start.clear()
        line_start += unfinished_line
        if len(line_start) > MAX_LINE_BYTES:
            raise ModelError(NOT_AN_ANSWER)
    if line_start:
        yield bytes(line_start)


class ServerSentEvent(NamedTuple):
    """One event of a stream."""

    data: bytes
    """JSON, unless the service is at fault."""
    is_error: bool = False
    """Whether the stream marks it as an error. Its data may also be one."""


def read_events(lines: Iterable[bytes]) -> Iterator[ServerSentEvent]:
    """Yield server-sent events, except comments and events without data.

    Some services answer with JSON instead of a stream, mostly to report an error. If the lines that
    belong to no event are JSON, they are the last event.

    Raises:
        ModelError: An event is too long.
    """
    data: list[bytes] = []
    is_error = False
    event_bytes = 0
    other_lines: list[bytes] = []
    other_bytes = 0
    # A stream may break off after an event without the blank line that ends it.
    for line in chain(lines, [b""]):
        event_bytes += len(line)
        if event_bytes > MAX_LINE_BYTES:
            raise ModelError(NOT_AN_ANSWER)

        # A byte order mark may stand before the first line.
        name, _, value = line.removeprefix(codecs.BOM_UTF8).partition(b":")
        if not line:
            if any(map(bytes.strip, data)):
                yield ServerSentEvent(b"\n".join(data), is_error)
            data = []
            is_error = False
            # Lines that belong to no event are kept to the end, so they count on.
            event_bytes = other_bytes
        elif name == b"data":
            data.append(value)
        elif name == b"error":  # of llama.cpp
            data.append(value)
            is_error = True
        elif name == b"event":
            is_error = is_error or value.strip() == b"error"
        elif name not in _OTHER_FIELDS:
            other_lines.append(line)
            other_bytes += len(line)

    text = b"\n".join(other_lines)
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(json.loads(text), dict | list):
            yield ServerSentEvent(text)


def parse_event(data: bytes, *, is_error: bool = False) -> Mapping[str, Any]:
    """Return the fields of an event.

    Args:
        data: JSON.
        is_error: Whether the stream marks it as an error.

    Returns:
        The JSON object that the event is.

    Raises:
        ServiceError: The event is an error.
        ModelError: It is not what a model's service sends.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        if is_error:
            raise ServiceError(data) from None
        raise ModelError(NOT_AN_ANSWER) from None
    if isinstance(value, list) and len(value) == 1:  # of Gemini
        (value,) = value
    if is_error or (isinstance(value, dict) and _is_error(value)):
        raise ServiceError(value)
    return require_object(value)


def _is_error(event: Mapping[str, Any]) -> bool:
    """Return whether an event is an error, in the forms of OpenAI, vLLM and FastAPI."""
    if event.get("error"):
        return True
    if event.get("object") == "error" or event.get("type") == "error":
        return True
    return "detail" in event and "choices" not in event


def require_object(value: object) -> Mapping[str, Any]:
    """Return a JSON object; raise `ModelError` for any other value."""
    if not isinstance(value, dict):
        raise ModelError(NOT_AN_ANSWER)
    return value
