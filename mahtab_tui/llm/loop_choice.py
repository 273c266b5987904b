"""Chooses whether a model works in steps, or is led like a small one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from mahtab_tui.llm.prices import model_name

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from mahtab_tui.settings.model import LoopMode

MAX_SMALL_PARAMETERS = 9_000_000_000
"""Parameters up to which a model is small."""
_SIZE_IN_NAME = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,2})?)b(?![a-z0-9])", re.IGNORECASE)
"""A number of parameters in billions, as in "qwen2.5-coder:1.5b"."""


class LoopChoice(NamedTuple):
    """How a model is led."""

    loop: Literal["steps", "single"]
    reason: str
    """Why, as words that may follow "because"."""


def choose_loop(llm: BaseChatModel, setting: LoopMode) -> LoopChoice:
    """Choose how to lead a model: by the setting, otherwise by its parameters.

    A model of unknown size counts as capable. May ask the model's server.
    """
    if setting != "auto":
        return LoopChoice(setting, f"the setting loop is {setting}")

    parameters = getattr(llm, "parameters", None)
    if isinstance(parameters, int):
        source = "its server"
    elif size := _SIZE_IN_NAME.search(model_name(llm)):
        source = "its name"
        parameters = round(float(size[1]) * 1e9)
    else:
        return LoopChoice("steps", "its size is not known")

    loop: Literal["steps", "single"] = "steps"
    if parameters <= MAX_SMALL_PARAMETERS:
        loop = "single"
    return LoopChoice(loop, f"it has {parameters / 1e9:.3g} billion parameters, as {source} says")
