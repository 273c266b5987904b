"""How a model chooses its words: options that some models take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mahtab_tui.llm.base import ModelError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

Sampling = Mapping[str, float]
"""Options by name: temperature, top_p, seed."""


def sampling_of(**options: float | None) -> Sampling:
    """Return the options that are given. Raises `ValueError` with a sentence."""
    chosen = {name: value for name, value in options.items() if value is not None}
    for name, value in chosen.items():
        whole = name == "seed"
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise ValueError(
                f"{name} must be a {'whole number' if whole else 'number'}, not {value!r}."
            )
    return chosen


def with_sampling(llm: BaseChatModel, name: str, sampling: Sampling) -> BaseChatModel:
    """Return a copy of a model with these options. name: of the model. Raises `ModelError` if it
    does not take one of them."""
    if not sampling:
        return llm
    inner: BaseChatModel = getattr(llm, "inner", llm)  # a provider's model is inside `ChatRemote`
    for option in sampling:
        if option not in type(inner).model_fields:
            raise ModelError(f"{name} takes no {option}. Leave it out, or choose another model.")
    changed = inner.model_copy(update=dict(sampling))
    return changed if inner is llm else llm.model_copy(update={"inner": changed})
