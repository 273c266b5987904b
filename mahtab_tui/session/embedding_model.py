"""The embedding model of a session, which helps to find skills."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import ModelError
from mahtab_tui.llm.failures import explain_error
from mahtab_tui.llm.ledger import Ledger, OverBudget
from mahtab_tui.llm.prices import LOCAL, price
from mahtab_tui.llm.token_estimates import estimate_message_tokens
from mahtab_tui.system import IMPORTS, Lazy

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


class EmbeddingModel:
    """LangChain's `Embeddings` within a budget, loaded on first use."""

    def __init__(
        self,
        spec: str,
        spending: Ledger,
        on_usage: Callable[[Usage], None],
        *,
        base_url: str | None = None,
        api_keys: Mapping[str, str] | None = None,
        timeout: float = 120.0,
    ) -> None:
        """Create a model without loading it.

        Args:
            spec: ``provider:model``, as `init_embeddings` takes it.
            spending: The budget, which limits its calls.
            on_usage: Called with the usage of each call.
            base_url: The address of a service that speaks OpenAI's protocol.
            api_keys: Keys by provider, which the environment's keys override; only that of OpenAI is
                passed on, because the packages of others read their own environment variables.
            timeout: Seconds for a call to OpenAI or Ollama; the packages of others have their own.
        """
        self._provider, _colon, self._model = spec.strip().partition(":")
        self._base_url = base_url if self._provider == "openai" else None
        self._spending = spending
        self._on_usage = on_usage
        self._timeout = timeout
        key_name = "openai_compatible" if self._base_url else self._provider
        configured_key = (api_keys or {}).get(key_name, "")
        self._key = os.environ.get(f"{key_name.upper()}_API_KEY") or configured_key
        self._inner = Lazy(self._make)

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text. Waits. Raises `ModelError`."""
        return self._call(texts, lambda model: model.embed_documents(list(texts)))

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text that others are compared with. Waits. Raises `ModelError`."""
        return self._call([text], lambda model: [model.embed_query(text)])[0]

    def _call(
        self, texts: Sequence[str], call: Callable[[Embeddings], list[list[float]]]
    ) -> list[list[float]]:
        """Embed texts within the budget. Raises `ModelError`."""
        # LangChain drops the service's count of tokens, so they are estimated.
        tokens = estimate_message_tokens(texts)
        provider = self._base_url or self._provider
        if self._provider == "ollama":
            provider = LOCAL
        cost = price(provider, self._model, tokens, 0)
        usage = Usage(
            model=f"{self._provider}:{self._model}",
            input_tokens=tokens,
            cost=cost,
            source="embedding",
            estimated=True,
        )
        try:
            with self._spending.within_limit(self._model, lambda: cost):
                vectors = call(self._inner.get())
                self._on_usage(usage)
        except OverBudget as error:
            raise ModelError(str(error)) from None
        except Exception as error:  # the provider's code
            raise explain_error(error, secret=self._key, timeout=self._timeout) from None
        if len(vectors) != len(texts) or not all(vectors):
            raise ModelError("The service sent something that is not an embedding.")
        return vectors

    def _make(self) -> Embeddings:
        """Load the model's package and create its client. Raises `ModelError`."""
        options: dict[str, Any] = {}
        if self._provider == "openai":
            options = {
                "timeout": self._timeout,
                "max_retries": 1,
                # It would download a table of tokens; our texts are short.
                "check_embedding_ctx_length": False,
                "api_key": self._key or "none",
            }
            if self._base_url:
                options["base_url"] = self._base_url
        elif self._provider == "ollama":
            options = {"client_kwargs": {"timeout": self._timeout}}
        try:
            with IMPORTS.turn():
                import numpy  # noqa: F401 - what its vectors are compared with
                from langchain.embeddings import init_embeddings

                return init_embeddings(self._model, provider=self._provider, **options)
        except ImportError:
            raise ModelError(
                f"embedding_model needs packages that are not installed: pip install langchain numpy langchain-{self._provider}"
            ) from None
        except Exception as error:  # an unknown provider, or the package's own checks
            reason = str(explain_error(error, secret=self._key))
            raise ModelError(
                f"The embedding model {self._provider}:{self._model} cannot be used. {reason}"
            ) from None
