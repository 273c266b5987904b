"""Finds texts by meaning."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from mahtab_tui.system import IMPORTS, start_thread

if TYPE_CHECKING:
    import numpy as np

NEAREST = 50
_LONGEST = 4_000
_RANK = 60
"""Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)."""
_BATCH = 64
_PATIENCE = 5.0
_PAUSE = 60.0
"""Seconds after a failure without requests."""


def merge_rankings(*rankings: Sequence[str]) -> list[str]:
    """Each ranking adds 1 / (60 + rank)."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking, 1):
            scores[name] = scores.get(name, 0.0) + 1 / (_RANK + rank)
    return sorted(scores, key=lambda name: -scores[name])


class SemanticIndex:
    """Ranks texts by their vectors; blocks, so not for the main thread."""

    def __init__(
        self, embeddings: Any, mask: Callable[[str], str], on_problem: Callable[[str], None]
    ) -> None:
        """embeddings: LangChain's `Embeddings`, whose exceptions are sentences. mask: masks what no
        model may get. on_problem: called once per sentence."""
        self._embeddings = embeddings
        self._mask = mask
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._known: dict[str, tuple[dict[str, tuple[str, Any]], Any]] = {}
        """Text and vector by key, and the table of all vectors."""
        self._pause_until = float("-inf")
        self._problems: set[str] = set()

    def nearest(self, kind: str, query: str, texts: Mapping[str, str]) -> list[str]:
        """Return the nearest keys; empty if the model does not answer in time. kind: names the
        collection."""
        if not query.strip() or not texts or time.monotonic() < self._pause_until:
            return []
        found: Future[list[str]] = Future()

        def search() -> None:
            try:
                found.set_result(self._search(kind, query, texts))
            except Exception as error:  # the thread's outermost frame
                found.set_exception(error)

        start_thread("meaning", search)
        try:
            return found.result(_PATIENCE)
        except Exception as error:
            problem = f"The embedding model has not answered within {_PATIENCE:g} s."
            if found.done():
                problem = str(error) or type(error).__name__
        self._pause_until = time.monotonic() + _PAUSE
        if problem not in self._problems:
            self._problems.add(problem)
            self._on_problem(f"Search by meaning does not work, so words alone decide. {problem}")
        return []

    def _search(self, kind: str, query: str, texts: Mapping[str, str]) -> list[str]:
        with IMPORTS.turn():
            import numpy as np
        with self._lock:
            known, table = self._known.get(kind, ({}, None))
            changed = [key for key, text in texts.items() if known.get(key, ("",))[0] != text]
            for start in range(0, len(changed), _BATCH):
                batch = changed[start : start + _BATCH]
                sent = [self._mask(texts[key])[:_LONGEST] for key in batch]
                rows = _normalize(self._embeddings.embed_documents(sent))
                known |= {key: (texts[key], row) for key, row in zip(batch, rows, strict=True)}
                self._known[kind] = known, None
            if changed or table is None or len(known) != len(texts):
                known = {key: known[key] for key in texts}
                table = np.stack([row for _, row in known.values()])
                self._known[kind] = known, table
            keys = list(known)
        (vector,) = _normalize([self._embeddings.embed_query(self._mask(query)[:_LONGEST])])
        best = np.argsort(-(table @ vector), kind="stable")[:NEAREST]
        return [keys[row] for row in best.tolist()]


def _normalize(vectors: Sequence[Sequence[float]]) -> np.ndarray[Any, Any]:
    """Scale to length 1. Raises `ValueError`."""
    import numpy as np

    made = np.asarray(vectors, np.float32)
    if made.ndim != 2 or not np.isfinite(made).all():
        raise ValueError("The service sent something that is not an embedding.")
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    return made / np.where(lengths > 0, lengths, 1)
