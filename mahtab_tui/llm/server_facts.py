"""What servers say about their models: how much one reads, and whether it sees pictures.

Each kind of server says it at another address: vLLM and llama.cpp in the list of models, llama.cpp also
in its properties, LM Studio in a list of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from mahtab_tui.llm.base import as_mapping
from mahtab_tui.llm.chat_answers import to_count
from mahtab_tui.llm.http_exchange import HttpService, fetch_json

_TIMEOUT_S = 1.0
"""Seconds for each answer of a server."""


class ServerFacts(NamedTuple):
    """What a server says about a model; None where it says nothing."""

    window: int | None = None
    """Tokens that the model can read."""
    sees: bool | None = None
    """Whether it accepts pictures."""
    parameters: int | None = None
    """The number of its parameters."""
    reports_progress: bool = False
    """Whether it says how much of a prompt has been read, when it is asked to."""


def fetch_facts(service: HttpService, model: str) -> ServerFacts:
    """Ask a server what it knows about a model. Raises `ModelError`."""
    root = HttpService(service.address.rstrip("/").removesuffix("/v1"), service.headers)

    listed_model = _find_model(_fetch(service, "/models"), model)
    vllm_window = to_count(listed_model.get("max_model_len"))
    llama_meta = as_mapping(listed_model.get("meta"))
    window = vllm_window or to_count(llama_meta.get("n_ctx"))
    is_vllm = vllm_window is not None and listed_model.get("owned_by") == "vllm"
    is_public = not service.address.startswith("http://")
    if is_vllm or is_public:
        return ServerFacts(window)

    llama_props = as_mapping(_fetch(root, "/props"))
    loaded_window = to_count(
        as_mapping(llama_props.get("default_generation_settings")).get("n_ctx")
    )
    has_vision = as_mapping(llama_props.get("modalities")).get("vision")
    sees = has_vision if isinstance(has_vision, bool) else None
    if loaded_window is not None or sees is not None:
        parameters = to_count(llama_meta.get("n_params"))
        return ServerFacts(loaded_window or window, sees, parameters, reports_progress=True)

    lm_studio_model = _find_model(_fetch(root, "/api/v0/models"), model)
    loaded_window = to_count(lm_studio_model.get("loaded_context_length"))
    max_window = to_count(lm_studio_model.get("max_context_length"))
    sees = {"vlm": True, "llm": False}.get(str(lm_studio_model.get("type")))
    return ServerFacts(loaded_window or max_window or window, sees)


def _fetch(server: HttpService, path: str) -> object:
    """Return a document of a server; None if it has no such document. Raises `ModelError`."""
    with contextlib.suppress(ValueError):
        return fetch_json(server, path, _TIMEOUT_S)
    return None


def _find_model(listed: object, model: str) -> Mapping[str, Any]:
    """Return a model's entry in a list; a server with one model accepts any name for it."""
    models = as_mapping(listed).get("data")
    entries = [as_mapping(entry) for entry in models] if isinstance(models, list) else []
    for entry in entries:
        if entry.get("id") == model:
            return entry
    return entries[0] if len(entries) == 1 else {}
