"""The models that callers have chosen for their searches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union, cast

from mahtab_tui.bus.masking import Secrets
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.names import full_name, split_spec
from mahtab_tui.llm.providers import find_service, get_llm
from mahtab_tui.llm.sampling import Sampling, check_sampling
from mahtab_tui.llm.services import OnNotice
from mahtab_tui.search.client_models import client_package, make_client_model
from mahtab_tui.search.conversation import Model
from mahtab_tui.search.function_models import FunctionModel, ModelFunction
from mahtab_tui.search.gates import Gate
from mahtab_tui.search.limits import SearchLimits
from mahtab_tui.search.service_models import ReplayModel, ServiceModel
from mahtab_tui.system import IMPORTS, langsmith_variable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

ModelSpec = Union[str, "BaseChatModel", ModelFunction, tuple[Any, str]]
"""A model's name, a LangChain model, a function that gets messages, or a client of OpenAI or
Anthropic with a model's name."""

GetOptions = Callable[[], Mapping[str, Any]]
"""Returns the arguments for `get_llm`."""

_NO_ACCESS: Mapping[str, str] = {}
_ACCESS_IS_FOR = "no base_url and api_key: these are for models of services, as openai:gpt-4o-mini."


class _MadeModel(NamedTuple):
    """A model, and what it was made of."""

    model: Model
    spec: ModelSpec
    """Kept, so that no other object gets the same id."""


class SearchModels(NamedTuple):
    """The models of one search."""

    root: Model
    parts: Model
    """Answers all calls but the root's."""


@dataclass(eq=False)
class ChosenModels:
    """The models that callers have chosen for searches. Lives in one loop."""

    _get_options: GetOptions
    _secrets: Secrets
    _on_notice: OnNotice
    _models: dict[object, _MadeModel] = field(default_factory=dict)
    """Models by the caller's choice: its parts, or their ids, and the options."""

    def get(
        self,
        spec: ModelSpec,
        limits: SearchLimits,
        sampling: Sampling,
        access: Mapping[str, str] = _NO_ACCESS,
    ) -> Model:
        """Return a model, which is made at the first call.

        Args:
            spec: What the caller has chosen.
            limits: Limits of the search.
            sampling: `temperature`, `top_p` and `seed`, as far as they are set.
            access: `address` and `api_key` for `find_service`.

        Raises:
            ModelError: The model is not available, does not take an option, or cannot keep to a
                limit.
        """
        spec_items = spec if isinstance(spec, tuple) else (spec,)
        identity = (item if isinstance(item, str) else id(item) for item in spec_items)
        key = (*identity, *sorted(sampling.items()), *sorted(access.items()))
        if key not in self._models:
            model = self._create(spec, sampling, access)
            self._models[key] = _MadeModel(model, spec)
            model.gate = Gate(model.concurrency)

        model = self._models[key].model
        if limits.concurrency is not None and limits.concurrency > model.concurrency:
            model.concurrency = limits.concurrency
            model.gate.widen(limits.concurrency)
        if limits.max_usd is not None and not model.priced:
            raise ModelError(
                f"The price of {model.name} is unknown, so a limit in dollars cannot be enforced. Limit calls or tokens instead."
            )
        return model

    def get_both(
        self,
        model: ModelSpec,
        sub_model: ModelSpec,
        limits: SearchLimits,
        sampling: Sampling,
        access: Mapping[str, str] = _NO_ACCESS,
    ) -> SearchModels:
        """Return the models of a search; see `get`.

        Args:
            access: For both if they are of one provider; no other provider gets the key.
        """
        # A key must not reach another provider than the one that it was given for.
        root_model = self.get(model, limits, sampling, access)
        is_shared = self._get_provider(model) == self._get_provider(sub_model)
        sub_access = access if is_shared else _NO_ACCESS
        return SearchModels(root_model, self.get(sub_model, limits, sampling, sub_access))

    def forget(self, models: Collection[Model]) -> None:
        """Forget models that no search uses; the caller closes them."""
        keys = [key for key, made in self._models.items() if made.model in models]
        for key in keys:
            del self._models[key]

    def close(self) -> None:
        """End the models' processes. Blocks until stopped answers have ended."""
        # Another thread may get or forget models meanwhile.
        for made in list(self._models.values()):
            made.model.close()

    def _create(self, spec: ModelSpec, sampling: Sampling, access: Mapping[str, str]) -> Model:
        if isinstance(spec, str):
            return self._create_named(spec, sampling, access)
        if access:
            raise ModelError(f"A model of the type {type(spec).__name__} takes {_ACCESS_IS_FOR}")
        if isinstance(spec, tuple):
            return make_client_model(spec, self._secrets, sampling)
        if hasattr(spec, "_llm_type"):  # LangChain need not be loaded to know its models
            return self._wrap_langchain_model(cast("BaseChatModel", spec), sampling)
        if client_package(spec):
            raise ModelError('Name the model as well, as in model=(client, "gpt-4o-mini").')

        function = FunctionModel(spec, self._secrets)
        if sampling:
            raise ModelError(f"{function.name} is a function, which takes no {min(sampling)}.")
        return function

    def _create_named(self, name: str, sampling: Sampling, access: Mapping[str, str]) -> Model:
        service = find_service(name, **{**self._get_options(), **access})
        if service is not None and langsmith_variable():  # LangChain is to send traces there
            with IMPORTS.turn():
                from mahtab_tui.llm.chat_service import ChatService

            return self._wrap_langchain_model(ChatService.from_service(service), sampling)
        if service is not None:
            return ServiceModel(service, name, self._secrets, sampling)

        if access:
            raise ModelError(f"{name} takes {_ACCESS_IS_FOR}")
        provider, path = self._split(name)
        if provider != "replay":
            return self._wrap_langchain_model(name, sampling)
        check_sampling(name, sampling, ())
        return ReplayModel(name, Path(path), self._secrets)

    def _get_provider(self, spec: ModelSpec) -> str:
        """Return the provider of a model that is named, and an empty text for others."""
        if not isinstance(spec, str):
            return ""
        provider, _ = self._split(spec)
        return provider

    def _split(self, name: str) -> tuple[str, str]:
        """Return the provider and the model that a name means."""
        return split_spec(full_name(name, self._get_options().get("provider")))

    def _wrap_langchain_model(self, llm: str | BaseChatModel, sampling: Sampling) -> Model:
        with IMPORTS.turn():
            from mahtab_tui.search.models import ChatModel  # loads LangChain

            return ChatModel.create(
                llm,
                secrets=self._secrets,
                make_llm=partial(get_llm, **self._get_options()),
                on_notice=self._on_notice,
                sampling=sampling,
            )
