"""Finds texts by meaning."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mahtab_tui.system import IMPORTS, start_thread

if TYPE_CHECKING:
    import numpy as np

MAX_RESULTS = 50
"""A search returns at most this many texts."""
MAX_TEXT_CHARS = 4_000
"""At most this many characters of a text are sent to the model."""
RANK_OFFSET = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)."""
TEXTS_PER_REQUEST = 64
"""At most this many texts are sent to the model at once."""
SEARCH_TIMEOUT_S = 5.0
"""Seconds for a search."""
FAILURE_PAUSE_S = 60.0
"""Seconds after a failure in which the model is not asked."""


def merge_rankings(*rankings: Sequence[str]) -> list[str]:
    """Return all names, the best first. Each ranking adds 1 / (60 + rank) to a name's score."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking, 1):
            scores[name] = scores.get(name, 0.0) + 1 / (RANK_OFFSET + rank)
    return sorted(scores, key=lambda name: -scores[name])


class EmbeddedText(NamedTuple):
    """A text, as it was when the model made its vector."""

    text: str
    vector: np.ndarray[Any, Any]
    """What the text means, as a vector of length 1."""


@dataclass
class TextCollection:
    """Texts whose vectors are kept, so that only changed ones are sent to the model."""

    texts: dict[str, EmbeddedText] = field(default_factory=dict)
    """The texts by their keys."""
    matrix: np.ndarray[Any, Any] | None = None
    """The vectors of `texts` as rows; None if some have changed since it was made."""


class SemanticIndex:
    """Ranks texts by their vectors; blocks, so not for the main thread."""

    def __init__(
        self, embeddings: Any, mask: Callable[[str], str], on_problem: Callable[[str], None]
    ) -> None:
        """
        Args:
            embeddings: LangChain's `Embeddings`, whose exceptions are sentences.
            mask: Masks what no model may get.
            on_problem: Called once for each sentence.
        """
        self._embeddings = embeddings
        self._mask = mask
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._collections: dict[str, TextCollection] = {}
        self._pause_until = float("-inf")
        """The model is not asked before this monotonic time."""
        self._problems: set[str] = set()
        """The problems that were reported."""

    def nearest(self, collection: str, query: str, texts: Mapping[str, str]) -> list[str]:
        """Return the keys of the texts nearest to a query; none if the model does not answer in
        time.

        Args:
            collection: The name of the collection, whose vectors are kept.
            query: What to look for.
            texts: The texts of the collection by key.
        """
        if not query.strip() or not texts or time.monotonic() < self._pause_until:
            return []
        future: Future[list[str]] = Future()

        def search() -> None:
            try:
                future.set_result(self._search(collection, query, texts))
            except Exception as error:  # the thread's outermost frame
                future.set_exception(error)

        start_thread("meaning", search)
        try:
            return future.result(SEARCH_TIMEOUT_S)
        except Exception as error:
            problem = f"The embedding model has not answered within {SEARCH_TIMEOUT_S:g} s."
            if future.done():
                problem = str(error) or type(error).__name__
        self._pause_until = time.monotonic() + FAILURE_PAUSE_S
        if problem not in self._problems:
            self._problems.add(problem)
            self._on_problem(f"Search by meaning does not work, so words alone decide. {problem}")
        return []

    def _search(self, collection: str, query: str, texts: Mapping[str, str]) -> list[str]:
        """Search as `nearest` does, without a time limit. Raises what the model raises."""
        with IMPORTS.turn():
            import numpy as np
        with self._lock:
            stored = self._collections.setdefault(collection, TextCollection())
            self._embed_changed(stored, texts)
            if stored.matrix is None or len(stored.texts) != len(texts):
                stored.texts = {key: stored.texts[key] for key in texts}
                stored.matrix = np.stack([embedded.vector for embedded in stored.texts.values()])
            keys = list(stored.texts)
            matrix = stored.matrix

        masked_query = self._mask(query)[:MAX_TEXT_CHARS]
        (query_vector,) = _normalize([self._embeddings.embed_query(masked_query)])
        best_rows = np.argsort(-(matrix @ query_vector), kind="stable")[:MAX_RESULTS]
        return [keys[row] for row in best_rows.tolist()]

    def _embed_changed(self, stored: TextCollection, texts: Mapping[str, str]) -> None:
        """Ask the model for the vectors of new and changed texts.

        If a request fails, the vectors of the earlier ones are kept.
        """
        changed_keys = [
            key
            for key, text in texts.items()
            if key not in stored.texts or stored.texts[key].text != text
        ]
        for start in range(0, len(changed_keys), TEXTS_PER_REQUEST):
            batch = changed_keys[start : start + TEXTS_PER_REQUEST]
            masked_texts = [self._mask(texts[key])[:MAX_TEXT_CHARS] for key in batch]
            vectors = _normalize(self._embeddings.embed_documents(masked_texts))
            stored.matrix = None
            for key, vector in zip(batch, vectors, strict=True):
                stored.texts[key] = EmbeddedText(texts[key], vector)


def _normalize(vectors: Sequence[Sequence[float]]) -> np.ndarray[Any, Any]:
    """Return vectors scaled to length 1, as rows. Raises `ValueError` if they are not vectors."""
    import numpy as np

    matrix = np.asarray(vectors, np.float32)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ValueError("The service sent something that is not an embedding.")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(lengths > 0, lengths, 1)
