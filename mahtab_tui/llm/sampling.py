"""The options temperature, top_p and seed, which control how a model chooses its words."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from mahtab_tui.llm.base import ModelError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

Sampling = Mapping[str, float]
"""The values of the options that the user has set, by the options' names."""
SAMPLING_OPTIONS = frozenset({"temperature", "top_p", "seed"})
_UNSUPPORTED_OPTIONS: Mapping[str, frozenset[str]] = {
    # Anthropic's Messages API has no parameter for a seed.
    "anthropic": frozenset({"seed"}),
}
"""The options that a protocol does not have, by the protocol's name."""


def validate_sampling(
    *, temperature: float | None = None, top_p: float | None = None, seed: int | None = None
) -> Sampling:
    """Check the options' types, and drop the options that are None.

    Raises:
        ValueError: A value is not a finite number, or the seed is not a whole number. The message
            is a sentence for the user.
    """
    options = {"temperature": temperature, "top_p": top_p, "seed": seed}
    sampling = {name: value for name, value in options.items() if value is not None}
    for name, value in sampling.items():
        valid_types: type | tuple[type, ...] = int if name == "seed" else (int, float)
        # A bool is an int, too.
        is_number = isinstance(value, valid_types) and not isinstance(value, bool)
        if not is_number or (isinstance(value, float) and not math.isfinite(value)):
            requirement = "whole number" if name == "seed" else "number"
            raise ValueError(f"{name} must be a {requirement}, not {value!r}.")
    return sampling


def supported_options(protocol: str) -> frozenset[str]:
    """Return the names of the options that a service's protocol has.

    Args:
        protocol: A `llm.chat_answers.Dialect`, or another name, which stands for a protocol that has
            all options.
    """
    return SAMPLING_OPTIONS - _UNSUPPORTED_OPTIONS.get(protocol, frozenset())


def with_sampling(llm: BaseChatModel, name: str, sampling: Sampling) -> BaseChatModel:
    """Return a copy of a model that uses the options, or the model itself if no option is set.

    Args:
        llm: The model.
        name: The model's name, for the error.
        sampling: The options.

    Raises:
        ModelError: The model does not support one of the options.
    """
    if not sampling:
        return llm
    # Only `llm.chat_service.ChatService` has a dialect. Its fields are the same for all dialects.
    protocol = getattr(llm, "dialect", "")
    check_sampling(name, sampling, supported_options(protocol) & type(llm).model_fields.keys())
    return llm.model_copy(update=dict(sampling))


def check_sampling(name: str, sampling: Sampling, supported: Container[str]) -> None:
    """Check that a model supports the options.

    Args:
        name: The model's name, for the error.
        sampling: The options.
        supported: The names of the options that the model supports.

    Raises:
        ModelError: The model does not support one of the options.
    """
    for option in sampling:
        if option not in supported:
            raise ModelError(f"{name} takes no {option}. Leave it out, or choose another model.")
