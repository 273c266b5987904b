"""Clients of OpenAI and Anthropic as the models of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.prices import Tariff
from mahtab_tui.llm.sampling import Sampling, check_sampling, supported_options
from mahtab_tui.search.function_models import FunctionModel

_MAX_ANTHROPIC_TOKENS = 8_192
"""Most tokens of an answer that Anthropic's client returns without streaming."""


def client_package(client: object) -> str:
    """Return "openai" or "anthropic" for a client of one of these packages, without loading them.

    Empty for anything else.
    """
    classes = [(base.__module__.partition(".")[0], base.__name__) for base in type(client).__mro__]
    for package, name in (("openai", "OpenAI"), ("anthropic", "Anthropic")):
        if (package, name) in classes or (package, f"Async{name}") in classes:
            return package
    return ""


def make_client_model(
    client_and_name: tuple[Any, ...], secrets: Secrets, sampling: Sampling
) -> FunctionModel:
    """Make a model of a client of OpenAI or Anthropic and a model's name.

    Args:
        client_and_name: What the caller has given, which is not checked.
        secrets: Masked in its messages.
        sampling: Options of the model.

    Raises:
        ModelError: It is something else, or the model does not take an option.
    """
    client: Any = client_and_name[0] if client_and_name else None
    model = client_and_name[1] if len(client_and_name) == 2 else ""
    package = client_package(client)
    if not package or not isinstance(model, str) or not model:
        raise ModelError(
            'A tuple as the model must be a client of OpenAI or Anthropic and a model\'s name, as in (client, "gpt-4o-mini").'
        )
    check_sampling(model, sampling, supported_options(package))

    ask = partial(_ASK[package], client, model, sampling)
    is_async = any(base.__name__.startswith("Async") for base in type(client).__mro__)

    async def ask_async(messages: list[dict[str, str]]) -> object:
        return await ask(messages)

    max_tokens = _MAX_ANTHROPIC_TOKENS if package == "anthropic" else None
    return FunctionModel(
        ask_async if is_async else ask,
        secrets,
        name=model,
        tariff=Tariff(model, str(client.base_url), max_tokens),
    )


def _ask_openai(client: Any, model: str, sampling: Sampling, messages: list[dict[str, str]]) -> Any:
    """Ask a client of OpenAI; what an asynchronous one returns can be awaited."""
    return client.chat.completions.create(model=model, messages=messages, **sampling)


def _ask_anthropic(
    client: Any, model: str, sampling: Sampling, messages: list[dict[str, str]]
) -> Any:
    """Ask a client of Anthropic, which takes the system prompt apart from the messages."""
    system_texts = [message["content"] for message in messages if message["role"] == "system"]
    return client.messages.create(
        model=model,
        max_tokens=_MAX_ANTHROPIC_TOKENS,
        system="\n\n".join(system_texts),
        messages=[message for message in messages if message["role"] != "system"],
        # Newer versions have no arguments for these options.
        extra_body=dict(sampling),
    )


_ASK: Mapping[str, Callable[..., Any]] = {"openai": _ask_openai, "anthropic": _ask_anthropic}
"""How the client of a package is asked."""
