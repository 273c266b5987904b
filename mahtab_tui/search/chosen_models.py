"""The models of searches, each made once from what the caller gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union, cast

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.providers import MakeLLM, OnNotice
from mahtab_tui.llm.sampling import Sampling
from mahtab_tui.search.conversation import Model
from mahtab_tui.search.functions import Function, FunctionModel
from mahtab_tui.search.limits import Limits
from mahtab_tui.search.schedule import Gate
from mahtab_tui.system.imports import IMPORTS

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

GivenModel = Union[str, "BaseChatModel", Function]
"""A model's name, a LangChain model, or a function that gets messages as dicts with `role` and
`content` and returns the answer."""


class ChosenModels:
    """Lives in one loop."""

    def __init__(self, make_llm: MakeLLM, secrets: Secrets, on_notice: OnNotice) -> None:
        """make_llm: makes a model from its name. secrets: masked in messages to models."""
        self.gates: dict[Model, Gate] = {}
        """Limits the calls of each model that run at a time."""
        self._make_llm = make_llm
        self._secrets = secrets
        self._on_notice = on_notice
        self._models: dict[object, Model] = {}
        self._given: list[object] = []
        """Models that they were made from, so that no other object gets the same id."""

    def get(self, given: GivenModel, limits: Limits, sampling: Sampling) -> Model:
        """Return a model. Raises `ModelError` if it is not available, does not take a sampling
        option, or cannot keep to a limit."""
        key = (given if isinstance(given, str) else id(given), *sorted(sampling.items()))
        if key not in self._models:
            self._models[key] = model = self._made(given, sampling)
            self._given.append(given)
            self.gates[model] = Gate(model.concurrency)
        model = self._models[key]
        if (
            limits.concurrency is not None and limits.concurrency > model.concurrency
        ):  # the caller wants more than the default
            model.concurrency = limits.concurrency
            self.gates[model].widen(limits.concurrency)
        if limits.max_usd is not None and not model.priced:
            raise ModelError(
                f"The price of {model.name} is unknown, so a limit in dollars cannot be enforced. Limit calls or tokens instead."
            )
        return model

    def close(self) -> None:
        """End the models' processes. Blocks until stopped answers have ended."""
        for model in self._models.values():
            model.close()

    def _made(self, given: GivenModel, sampling: Sampling) -> Model:
        if not isinstance(given, str) and not hasattr(
            given, "_llm_type"
        ):  # LangChain need not be loaded to know its models
            function = FunctionModel(given, self._secrets)
            if sampling:
                raise ModelError(f"{function.name} is a function, which takes no {min(sampling)}.")
            return function
        with IMPORTS.turn():
            from mahtab_tui.search.models import ChatModel  # loads LangChain

            llm = cast("str | BaseChatModel", given)
            return ChatModel.of(
                llm,
                secrets=self._secrets,
                make_llm=self._make_llm,
                on_notice=self._on_notice,
                sampling=sampling,
            )
