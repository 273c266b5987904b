"""Lists the models for this machine, with the reason for each that cannot be used."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import check_model

_OLLAMA_LIMIT = 1.0
"""Seconds to wait for each response of Ollama."""
_MOST = 1_000_000
"""Bytes of its answer that are read."""
_PROVIDERS = ("anthropic", "openai", "openrouter", "ollama")
_CLAUDE = ("claude", "claude:opus", "claude:sonnet", "claude:haiku")


class ModelChoice(NamedTuple):
    """A model, or a provider whose model is still to be named."""

    spec: str
    """Ends with a colon if a model's name must follow."""
    about: str
    problem: str = ""
    """A sentence saying why it cannot be used; empty if it can."""

    @property
    def is_provider(self) -> bool:
        return self.spec.endswith(":")


def found_models(chosen: Iterable[tuple[str, str]], used: Iterable[str], access: Mapping[str, Any]) -> list[ModelChoice]:
    """List the models that are known without network access, those already chosen first. Loads nothing.

    chosen: the models in the settings, with what each is for. used: those of earlier sessions. access: `Settings.model_access`.
    """
    found: dict[str, ModelChoice] = {}
    for spec, about in (*chosen, *((spec, "used before") for spec in used), *_offered()):
        if spec not in found:
            found[spec] = ModelChoice(spec, about, problem_of(spec, access))
    return list(found.values())


def problem_of(spec: str, access: Mapping[str, Any]) -> str:
    """Say why a model cannot be used, as far as that is known without asking it; empty if it can."""
    try:
        check_model(f"{spec}NAME" if spec.endswith(":") else spec, **access)
    except ModelError as error:
        return str(error)
    return ""


def _offered() -> Iterator[tuple[str, str]]:
    for spec in _CLAUDE if shutil.which("claude") else _CLAUDE[:1]:
        yield spec, "the claude program, with your login"
    for provider in _PROVIDERS:
        yield f"{provider}:", "type a model's name after it"
    yield "demo", "offline, by rules"


def ollama_models() -> list[ModelChoice] | None:
    """Ask Ollama, here or at OLLAMA_HOST, for its models; None if it does not answer. Blocks."""
    address = ollama_address()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{address}/api/tags", timeout=_OLLAMA_LIMIT) as answer:
            listed = json.loads(answer.read(_MOST))["models"]
        names = [str(model["name"]) for model in listed]
    except (OSError, ValueError, LookupError, TypeError, RecursionError, http.client.HTTPException):
        return None
    return [ModelChoice(f"ollama:{name}", f"at {address}", problem_of(f"ollama:{name}", {})) for name in names]


def ollama_address() -> str:
    """Return Ollama's address, determined as its own programs do."""
    host = os.environ.get("OLLAMA_HOST", "").strip() or "127.0.0.1"
    scheme, _, rest = host.rpartition("://")
    rest = rest.rstrip("/").replace("0.0.0.0", "127.0.0.1")
    return f"{scheme or 'http'}://{rest if ':' in rest or scheme == 'https' else f'{rest}:11434'}"
