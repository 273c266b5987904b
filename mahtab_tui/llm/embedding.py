"""Embedding models by their names, through LangChain."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mahtab_tui.bus.records import Usage
from mahtab_tui.llm.base import ModelError, explain_error
from mahtab_tui.llm.usage import LOCAL, OverBudget, Spending, estimate_message_tokens, price
from mahtab_tui.system import IMPORTS, Lazy

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


class EmbeddingModel:
    """LangChain's `Embeddings` within a budget, loaded on first use."""

    def __init__(
        self,
        spec: str,
        spending: Spending,
        on_usage: Callable[[Usage], None],
        *,
        base_url: str | None = None,
        api_keys: Mapping[str, str] | None = None,
        timeout: float = 120.0,
    ) -> None:
        """spec: "provider:model", as `init_embeddings` takes it. timeout: in seconds."""
        self._provider, _, self._model = spec.strip().partition(":")
        self._base_url = base_url if self._provider == "openai" else None
        self._spending = spending
        self._on_usage = on_usage
        name = "openai_compatible" if self._base_url else self._provider
        self._key = os.environ.get(f"{name.upper()}_API_KEY") or (api_keys or {}).get(name, "")
        self._timeout = timeout
        self._inner = Lazy(self._make)

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return self._call(texts, lambda model: model.embed_documents(list(texts)))

    def embed_query(self, text: str) -> list[float]:
        return self._call([text], lambda model: [model.embed_query(text)])[0]

    def _call(
        self, texts: Sequence[str], call: Callable[[Embeddings], list[list[float]]]
    ) -> list[list[float]]:
        """LangChain drops the service's count of tokens, so they are estimated."""
        tokens = estimate_message_tokens(texts)
        provider = LOCAL if self._provider == "ollama" else self._base_url or self._provider
        cost = price(provider, self._model, tokens, 0)
        name = f"{self._provider}:{self._model}"
        used = Usage(model=name, input_tokens=tokens, cost=cost, source="embedding", estimated=True)
        try:
            with self._spending.within_limit(self._model, lambda: cost):
                vectors = call(self._inner.get())
                self._on_usage(used)
        except OverBudget as error:
            raise ModelError(str(error)) from None
        except Exception as error:  # the provider's code
            raise explain_error(error, secret=self._key, timeout=self._timeout) from None
        if len(vectors) != len(texts) or not all(vectors):
            raise ModelError("The service sent something that is not an embedding.")
        return vectors

    def _make(self) -> Embeddings:
        options: dict[str, Any] = {}
        if self._provider == "openai":
            options = {
                "timeout": self._timeout,
                "max_retries": 1,
                # It would download a table of tokens; our texts are short.
                "check_embedding_ctx_length": False,
                "api_key": self._key or "none",
                **({"base_url": self._base_url} if self._base_url else {}),
            }
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
