"""Reads what a service says about an error, in whichever form it says it.

Services agree on a status and on little else. The body of an error is JSON, a list, a page for browsers
or a bare text, and its words are under ``error.message``, ``errors``, ``detail`` or ``metadata.raw``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mahtab_tui.llm.base import ServiceError, as_mapping

_MAX_WORDS_CHARS = 300
"""Characters of a service's own words in a sentence."""


def error_text(error: Exception, secret: str) -> str:
    """Return the words of a service about an error, masked and on one line."""
    from mahtab_tui.bus.masking import mask_secret  # not needed before the first picture

    words = _error_words(error)
    # Masked before it is cut, which could leave a part of the key.
    line = str(mask_secret(" ".join(words.split()), secret))
    if len(line) <= _MAX_WORDS_CHARS:
        return line
    return f"{line[:_MAX_WORDS_CHARS]} …"


def _error_words(error: Exception) -> str:
    """Return the words of a service about an error; empty if it has none."""
    words = error_field(error, "message")
    for description in _descriptions(error):
        # The provider behind OpenRouter, whose own message is only "Provider returned error".
        raw = as_mapping(description.get("metadata")).get("raw")
        if isinstance(raw, str) and raw.strip():
            words = error_field(ServiceError(raw), "message") or raw
    if not words:
        words = str(getattr(error, "error", "") or getattr(error, "message", "") or error)
    if words or not isinstance(error, ServiceError) or any(_descriptions(error)):
        return words

    # The body is not JSON. A page is for browsers; anything else is for us.
    body = str(error.body or "")
    is_page = body.lstrip().startswith("<")
    return "" if is_page else body


def error_field(error: Exception, name: str) -> str:
    """Return the first value that a description of the error has for a field; empty if none has it.

    ``error`` is no value: some services write it where others name the kind of error.
    """
    for description in _descriptions(error):
        value = description.get(name)
        if value not in (None, "", "error"):
            return str(value)
    return ""


def _descriptions(error: Exception) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of an error's body that may describe it, the best first."""
    body = getattr(error, "body", None)
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return
    # Gemini: [{"error": {…}}]
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, Mapping):
        return

    # Most: {"error": {"message": …}}; Ollama: {"error": "…"}
    inner = body.get("error")
    if isinstance(inner, Mapping):
        yield inner
    elif isinstance(inner, str):
        yield {"message": inner}
    # Cloudflare: {"errors": [{"message": …}]}
    problems = body.get("errors")
    if isinstance(problems, list) and problems and isinstance(problems[0], Mapping):
        yield problems[0]
    detail = _detail_text(body.get("detail"))
    if detail and not body.get("message"):
        yield {"message": detail}
    yield body


def _detail_text(detail: object) -> str:
    """Return the text of an error of FastAPI: ``"…"``, ``{"msg": "…"}`` or ``[{"msg": "…"}]``."""
    if isinstance(detail, str):
        return detail
    if isinstance(detail, Mapping):
        for name in ("message", "error", "msg"):
            if isinstance(detail.get(name), str):
                return str(detail[name])
        return ""
    if not isinstance(detail, list):
        return ""
    messages = [as_mapping(problem).get("msg") for problem in detail]
    return "; ".join(str(message) for message in messages if message)
