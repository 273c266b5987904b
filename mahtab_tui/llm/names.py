"""Names of models, such as openai:gpt-4o-mini: a provider, and the model's name there."""

from __future__ import annotations

from pathlib import Path

from mahtab_tui.llm.base import ModelError

SERVICES = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
}
"""Providers on the internet, and their addresses."""
SERVERS = {"llamacpp": 8080, "lmstudio": 1234, "vllm": 8000, "ollama": 11434}
"""Providers whose servers run on a machine of the user's, and their ports."""
PROVIDERS = (*SERVICES, *SERVERS)
AGENT = "acp"
"""Stands in place of a provider before the name of an agent, which is no model."""
_COMPLETE_ALONE = ("claude", "demo", *SERVERS)
"""Names that need no model's name after them."""
_PROVIDER_FORMS = ", ".join(f"{provider}:MODEL" for provider in PROVIDERS)
MODEL_NAME_FORMS = f"claude, claude:MODEL, {_PROVIDER_FORMS}, demo, replay:FILE, acp:AGENT"


def split_spec(spec: str) -> tuple[str, str]:
    """Split a name into provider and model, which may be empty.

    Args:
        spec: Such as ``openai:gpt-4o-mini``, ``ollama`` or ``claude-opus-4-1``.

    Raises:
        ModelError: The provider is unknown, or the model's name is missing.
    """
    provider, _, model = spec.strip().partition(":")
    if provider.startswith("claude-") and not model:
        return "claude", provider
    if provider in _COMPLETE_ALONE:
        return provider, model
    if model and provider in (*PROVIDERS, "replay", AGENT):
        return provider, model
    raise ModelError(f"There is no model {spec!r}. Possible names: {MODEL_NAME_FORMS}.")


def check_name(spec: str) -> None:
    """Check that a name is valid; reads a replay file. Raises `ModelError`."""
    provider, model = split_spec(spec)
    if provider == "replay":
        from mahtab_tui.llm.replay_file import read_replay

        read_replay(Path(model))


def full_name(spec: str, provider: str | None) -> str:
    """Add a provider to a model's name that has none.

    Args:
        provider: None adds nothing.
    """
    spec = spec.strip()
    first_word = spec.partition(":")[0]
    has_provider = first_word in (*PROVIDERS, "claude", "demo", "replay", AGENT)
    if has_provider or not spec or provider is None:
        return spec
    return f"{provider}:{spec}"


def model_label(spec: str) -> str:
    """Return a short name for display: the model's, without folders, or else the provider's.

    All models of Claude are called ``claude``.
    """
    provider, _, model = spec.strip().partition(":")
    if provider.startswith("claude"):
        return "claude"
    if model and provider in (*PROVIDERS, AGENT):
        return model.rpartition("/")[2]
    return provider


def agent_name(spec: str) -> str:
    """Return the name of the agent that a model's name means; empty for a model."""
    provider, _, name = spec.strip().partition(":")
    return name if provider == AGENT else ""


def is_loopback(host: str) -> bool:
    """Return whether a host's name or address is that of this machine."""
    return host in ("localhost", "::1", "0.0.0.0") or (
        host.startswith("127.") and host.replace(".", "").isdecimal()
    )
