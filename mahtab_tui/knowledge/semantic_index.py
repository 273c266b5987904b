"""Finds texts by meaning."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from mahtab_tui.system import IMPORTS, start_thread

NEAREST = 50
_LONGEST = 4_000
_RANK = 60
"""Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)."""
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
    """Ranks texts by their vectors; not on the main thread."""

    def __init__(
        self, embeddings: Any, mask: Callable[[str], str], on_problem: Callable[[str], None]
    ) -> None:
        """embeddings: LangChain's `Embeddings`, whose exceptions are sentences. mask: masks what no
        model may get. on_problem: called once per sentence."""
        self._embeddings = embeddings
        self._mask = mask
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._stores: dict[str, tuple[Any, dict[str, str]]] = {}
        """A store of vectors, and the texts in it."""
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
            from langchain_core.vectorstores import InMemoryVectorStore
        with self._lock:
            if kind not in self._stores:
                self._stores[kind] = InMemoryVectorStore(self._embeddings), {}
            store, known = self._stores[kind]
            for key in known.keys() - texts.keys():
                store.delete([key])
                del known[key]
            if changed := [key for key, text in texts.items() if known.get(key) != text]:
                store.add_texts([self._mask(texts[key])[:_LONGEST] for key in changed], ids=changed)
                known.update({key: texts[key] for key in changed})
            found = store.similarity_search(self._mask(query)[:_LONGEST], k=NEAREST)
        return [document.id for document in found]
