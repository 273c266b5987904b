"""How models choose their words: temperature, top_p and seed."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING

from mahtab_tui.llm.base import ModelError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

Sampling = Mapping[str, float]
"""The options that are set, by name."""
SAMPLING_OPTIONS = ("temperature", "top_p", "seed")


def parse_sampling(**options: float | None) -> Sampling:
    """Return the options that are not None.

    Args:
        options: values of `SAMPLING_OPTIONS`.

    Raises:
        ValueError: A value has the wrong type; the message is a sentence for the user.
    """
    sampling = {name: value for name, value in options.items() if value is not None}
    for name, value in sampling.items():
        if name == "seed":
            is_valid = isinstance(value, int)
            requirement = "whole number"
        else:
            is_valid = isinstance(value, int | float)
            requirement = "number"
        # A bool is an int, too.
        if isinstance(value, bool) or not is_valid:
            raise ValueError(f"{name} must be a {requirement}, not {value!r}.")
    return sampling


def with_sampling(llm: BaseChatModel, name: str, sampling: Sampling) -> BaseChatModel:
    """Return a copy of a model with options, or the model itself if there are none.

    Args:
        llm: the model.
        name: its name, for the error.
        sampling: the options.

    Raises:
        ModelError: The model does not support one of them.
    """
    if not sampling:
        return llm
    check_sampling(name, sampling, type(llm).model_fields, getattr(llm, "dialect", ""))
    return llm.model_copy(update=dict(sampling))


def check_sampling(name: str, sampling: Sampling, supported: Container[str], dialect: str) -> None:
    """Check that a model supports options.

    Args:
        name: the model's name, for the error.
        sampling: the options.
        supported: names of the options that it has; other names may be among them.
        dialect: the protocol of its service; empty if it has none.

    Raises:
        ModelError: The model does not support one of them.
    """
    for option in sampling:
        if option not in supported or (dialect == "anthropic" and option == "seed"):
            raise ModelError(f"{name} takes no {option}. Leave it out, or choose another model.")
