"""Finds texts by meaning: with vectors of an embedding model, which are made in the background and
kept."""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

NEAREST = 50
"""Texts that are ranked by meaning."""
LONGEST = 4_000
"""Characters of a text that are embedded."""
_RANK = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)."""
_BATCH = 64
"""Texts that are sent to the model at a time."""
_PATIENCE = 5.0
"""Seconds that a search waits for vectors."""
_PAUSE = 60.0
"""Seconds after a failure in which the model is not asked again."""
_QUERIES = 100
"""Queries whose vectors are remembered."""


class Embedder(Protocol):
    """Makes vectors. Raises any exception with a sentence."""

    identity: str
    """Distinguishes models whose vectors cannot be compared."""

    def documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text."""

    def query(self, text: str) -> list[float]:
        """Return the vector of a query."""


class VectorStore(Protocol):
    """Keeps vectors by model and digest of the text."""

    def known(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that are known."""

    def keep(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors."""

    def close(self) -> None: ...


def merge_rankings(*rankings: Sequence[str]) -> list[str]:
    """Join rankings: each adds 1 / (60 + rank) to its names."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking, 1):
            scores[name] = scores.get(name, 0.0) + 1 / (_RANK + rank)
    return sorted(scores, key=lambda name: -scores[name])


class SemanticIndex:
    """Ranks texts by how near their vectors are to a query's. Any thread but the main one may call
    it."""

    def __init__(
        self,
        embedder: Embedder,
        vectors: Callable[[], VectorStore],
        mask: Callable[[str], str],
        on_problem: Callable[[str], None],
    ) -> None:
        """vectors: opens the store when it is first needed. mask: masks what no model may get.
        on_problem: called once with each sentence."""
        self._embedder = embedder
        self._open = vectors
        self._mask = mask
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._store: VectorStore | None = None
        self._corpora: dict[str, _Corpus] = {}
        self._queries: OrderedDict[str, np.ndarray[Any, Any]] = OrderedDict()
        self._pause_until = float("-inf")
        self._problems: set[str] = set()
        self._closed = threading.Event()

    def nearest(self, kind: str, query: str, texts: Mapping[str, str]) -> list[str]:
        """Return the keys of the nearest texts; empty if the model does not answer in time. kind:
        names the collection, whose vectors stay in memory. Texts without a vector are left out."""
        if (
            not query.strip()
            or not texts
            or self._closed.is_set()
            or time.monotonic() < self._pause_until
        ):
            return []
        until = time.monotonic() + _PATIENCE
        with self._lock:
            corpus = self._corpora.get(kind)
            if corpus is None or (corpus.texts is not texts and corpus.texts != texts):
                corpus = self._corpora[kind] = _Corpus(texts)
        if corpus.begin():
            threading.Thread(target=self._fill, args=(corpus,), name="meaning", daemon=True).start()
        vector = self._vector(query, until)
        corpus.ready.wait(max(0.0, until - time.monotonic()))
        return [] if vector is None else corpus.nearest(vector)

    def missing(self, kind: str) -> int:
        """Return how many texts of a collection have no vector yet."""
        corpus = self._corpora.get(kind)
        return 0 if corpus is None else len(corpus.texts) - corpus.count

    def close(self) -> None:
        """Ask the model nothing more."""
        self._closed.set()
        with self._lock:
            if self._store is not None:
                self._store.close()

    def _vector(self, query: str, until: float) -> np.ndarray[Any, Any] | None:
        """Return a query's vector; None if the model does not answer in time."""
        query = self._mask(query)[:LONGEST]
        with self._lock:
            if (known := self._queries.get(query)) is not None:
                return known
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(_unit([self._embedder.query(query)])[0])
            except Exception as error:  # the thread's outermost frame
                answers.put(error)

        threading.Thread(target=ask, name="meaning-query", daemon=True).start()
        try:
            answer = answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            answer = TimeoutError(f"The embedding model has not answered within {_PATIENCE:g} s.")
        if isinstance(answer, Exception):
            self._fail(answer)
            return None
        with self._lock:
            self._queries[query] = answer
            if len(self._queries) > _QUERIES:
                self._queries.popitem(last=False)
        vector: np.ndarray[Any, Any] = answer
        return vector

    def _fill(self, corpus: _Corpus) -> None:
        """Get the vectors from the store, and the missing ones from the model."""
        try:
            texts: dict[bytes, str] = {}
            keys: dict[bytes, list[str]] = {}
            for key, text in corpus.texts.items():
                text = self._mask(text)[:LONGEST]
                digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=20).digest()
                texts[digest] = text
                keys.setdefault(digest, []).append(key)
            with self._lock:
                if self._store is None:
                    self._store = self._open()
                store = self._store
            model = self._embedder.identity
            known = store.known(model, list(texts))
            corpus.add([(key, data) for digest, data in known.items() for key in keys[digest]])
            missing = [digest for digest in texts if digest not in known]
            for start in range(0, len(missing), _BATCH):
                batch = missing[start : start + _BATCH]
                if self._closed.is_set():
                    return
                made = _unit(self._embedder.documents([texts[digest] for digest in batch]))
                vectors = {digest: row.tobytes() for digest, row in zip(batch, made, strict=True)}
                store.keep(model, vectors)
                corpus.add(
                    [(key, data) for digest, data in vectors.items() for key in keys[digest]]
                )
        except Exception as error:  # the thread's outermost frame
            corpus.reset()
            self._fail(error)
        finally:
            corpus.ready.set()

    def _fail(self, error: Exception) -> None:
        self._pause_until = time.monotonic() + _PAUSE
        problem = str(error) or type(error).__name__
        if problem not in self._problems and not self._closed.is_set():
            self._problems.add(problem)
            self._on_problem(f"Search by meaning does not work, so words alone decide. {problem}")


class _Corpus:
    """A collection of texts and their vectors, as far as they are there."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self.ready = threading.Event()
        """Set when there is nothing more to wait for."""
        self._lock = threading.Lock()
        self._begun = False
        self._waiting: list[tuple[str, bytes]] = []
        """Not in a table yet."""
        self._keys: dict[int, list[str]] = {}
        self._tables: dict[int, np.ndarray[Any, Any]] = {}
        """By the length of the vectors in bytes, because a service may change its model."""

    @property
    def count(self) -> int:
        return len(self._waiting) + sum(map(len, self._keys.values()))

    def begin(self) -> bool:
        """Return whether the vectors have to be got."""
        with self._lock:
            begun, self._begun = self._begun, True
            return not begun

    def reset(self) -> None:
        """Let them be got again."""
        with self._lock:
            self._begun, self._waiting, self._keys, self._tables = False, [], {}, {}

    def add(self, vectors: Iterable[tuple[str, bytes]]) -> None:
        """Add keys with vectors of length 1, as float32."""
        with self._lock:
            self._waiting += vectors

    def nearest(self, vector: np.ndarray[Any, Any]) -> list[str]:
        import numpy as np

        size = len(vector) * vector.itemsize
        with self._lock:
            if new := [each for each in self._waiting if len(each[1]) == size]:
                table = np.frombuffer(b"".join(data for _, data in new), np.float32).reshape(
                    len(new), -1
                )
                self._tables[size] = (
                    np.concatenate([self._tables[size], table]) if size in self._tables else table
                )
                self._keys.setdefault(size, []).extend(key for key, _ in new)
                self._waiting = [each for each in self._waiting if len(each[1]) != size]
            if size not in self._tables:
                return []
            table, keys = self._tables[size], self._keys[size]
        scores = table @ vector
        best = np.argpartition(-scores, min(NEAREST, len(scores) - 1))[:NEAREST]
        return [keys[row] for row in sorted(best.tolist(), key=lambda row: (-scores[row], row))]


def _unit(vectors: Sequence[Sequence[float]]) -> np.ndarray[Any, Any]:
    """Return vectors of length 1. Raises `ValueError`."""
    import numpy as np

    made = np.asarray(vectors, np.float32)
    if made.ndim != 2 or not np.isfinite(made).all():
        raise ValueError("The service sent something that is not an embedding.")
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    made /= np.where(lengths > 0, lengths, 1)
    return made
