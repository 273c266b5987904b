"""Finds texts by meaning, and parts of the source by words and meaning."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mahtab_tui.knowledge.code import CodeError, is_wanted, list_files
from mahtab_tui.knowledge.confined_folder import ConfinedFolder, ConfinedFolderError, split_lines
from mahtab_tui.knowledge.library import SkillsIndex
from mahtab_tui.knowledge.skills import Skill

if TYPE_CHECKING:
    import numpy as np

    from mahtab_tui.store.session_search import Vectors

NEAREST = 50
LONGEST = 4_000
_RANK = 60
"""Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)."""
_BATCH = 64
_PATIENCE = 5.0
_PAUSE = 60.0
"""Seconds after a failure without requests."""


class Embedder(Protocol):
    """Makes vectors. Raises any exception with a sentence."""

    identity: str
    """Distinguishes models whose vectors cannot be compared."""

    def documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text."""

    def query(self, text: str) -> list[float]:
        """Return the vector of a query."""


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
        self,
        embedder: Embedder,
        vectors: Callable[[], Vectors],
        mask: Callable[[str], str],
        on_problem: Callable[[str], None],
    ) -> None:
        """vectors: opens the store. mask: masks what no model may get. on_problem: called once per
        sentence."""
        self._embedder = embedder
        self._open = vectors
        self._mask = mask
        self._on_problem = on_problem
        self._lock = threading.Lock()
        self._store: Vectors | None = None
        self._corpora: dict[str, _Corpus] = {}
        self._pause_until = float("-inf")
        self._problems: set[str] = set()
        self._closed = threading.Event()

    def nearest(self, kind: str, query: str, texts: Mapping[str, str]) -> list[str]:
        """Return the nearest keys; empty if the model does not answer in time. kind: names the
        collection, whose vectors stay in memory."""
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
            begins, corpus.begun = not corpus.begun, True
        if begins:
            threading.Thread(target=self._fill, args=(corpus,), name="meaning", daemon=True).start()
        vector = self._vector(query, until)
        corpus.ready.wait(max(0.0, until - time.monotonic()))
        return [] if vector is None else corpus.nearest(vector)

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            if self._store is not None:
                self._store.close()

    def _vector(self, query: str, until: float) -> np.ndarray[Any, Any] | None:
        """Return None if the model does not answer in time."""
        query = self._mask(query)[:LONGEST]
        answer = Future[Any]()

        def ask() -> None:
            try:
                answer.set_result(_unit([self._embedder.query(query)])[0])
            except Exception as error:  # the thread's outermost frame
                answer.set_exception(error)

        threading.Thread(target=ask, name="meaning-query", daemon=True).start()
        try:
            vector: np.ndarray[Any, Any] = answer.result(max(0.0, until - time.monotonic()))
        except Exception as error:
            late = TimeoutError(f"The embedding model has not answered within {_PATIENCE:g} s.")
            self._fail(error if answer.done() else late)
            return None
        return vector

    def _fill(self, corpus: _Corpus) -> None:
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
            vectors = store.known(model, list(texts))
            missing = [digest for digest in texts if digest not in vectors]
            for start in range(0, len(missing) + _BATCH, _BATCH):
                corpus.vectors = corpus.vectors | {
                    key: vectors[digest] for digest in vectors for key in keys[digest]
                }
                batch = missing[start : start + _BATCH]
                if self._closed.is_set() or not batch:
                    return
                made = _unit(self._embedder.documents([texts[digest] for digest in batch]))
                vectors = {digest: row.tobytes() for digest, row in zip(batch, made, strict=True)}
                store.keep(model, vectors)
        except Exception as error:  # the thread's outermost frame
            corpus.begun = False  # the next search tries again
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
    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self.begun = False
        self.ready = threading.Event()
        """Nothing more to wait for."""
        self.vectors: dict[str, bytes] = {}
        """float32 of length 1; replaced, not changed."""

    def nearest(self, vector: np.ndarray[Any, Any]) -> list[str]:
        import numpy as np

        size = len(vector) * vector.itemsize
        # A service may change its model, and vectors of different lengths cannot be compared.
        alike = {key: data for key, data in self.vectors.items() if len(data) == size}
        if not alike:
            return []
        table = np.frombuffer(b"".join(alike.values()), np.float32).reshape(len(alike), -1)
        best = np.argsort(-(table @ vector), kind="stable")[:NEAREST]
        keys = list(alike)
        return [keys[row] for row in best.tolist()]


def _unit(vectors: Sequence[Sequence[float]]) -> np.ndarray[Any, Any]:
    """Scale to length 1. Raises `ValueError`."""
    import numpy as np

    made = np.asarray(vectors, np.float32)
    if made.ndim != 2 or not np.isfinite(made).all():
        raise ValueError("The service sent something that is not an embedding.")
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    made /= np.where(lengths > 0, lengths, 1)
    return made


MOST = 5_000
_FILES = 20_000
_FILE_PARTS = 100
"""More of one file is data."""
_LINES, _FEW_LINES = 40, 8
"""Lines of a part, and before it may end at a definition."""
_CHARACTERS = 3_000
_SHOWN, _SHOWN_LINES, _WIDTH = 5, 12, 200
"""Parts, lines of each, and their characters."""
_LISTING_SECONDS = 20.0
_WORDS = re.compile(r"[^\W_][\w'-]*(?:[ ,]+[\w'-]+)+[ ?.!]*")
"""Words, not a regular expression."""
_TOP = re.compile(r"[^\s)\]}#]")
"""A place where a definition may begin."""


class _Part(NamedTuple):
    path: str
    first: int
    text: str


class CodeParts:
    def __init__(self, folder: Path, meaning: SemanticIndex) -> None:
        self._folder = folder.absolute()
        self._meaning = meaning
        self._lock = threading.Lock()
        self._files: dict[str, tuple[tuple[int, int], list[_Part]]] = {}
        self._parts: dict[str, _Part] = {}
        self._texts: dict[str, str] = {}
        self._index: SkillsIndex | None = None
        self._omitted = 0

    def search(self, words: str, file_pattern: str, cancelled: Callable[[], bool]) -> str:
        """Return the best parts; empty for a regular expression or one word."""
        if not _WORDS.fullmatch(words.strip()):
            return ""
        with self._lock:
            try:
                self._read(cancelled)
            except CodeError as error:
                return str(error)
            parts, texts, index, omitted = self._parts, self._texts, self._index, self._omitted
        if index is None or cancelled():
            return ""
        by_words = [hit.name for hit in index.search(words, NEAREST)]
        by_meaning = self._meaning.nearest("code", words, texts)
        found = [
            parts[key]
            for key in merge_rankings(by_words, by_meaning)
            if is_wanted(parts[key].path, file_pattern)
        ]
        if not found:
            return ""
        lines = ["Near in words and meaning:" if by_meaning else "Near in words:"]
        for path, first, text in found[:_SHOWN]:
            shown = text.split("\n")
            lines.append(f"{path}:{first}-{first + len(shown) - 1}")
            numbered = enumerate(shown[:_SHOWN_LINES], first)
            lines += [f"{number:>6}  {line[:_WIDTH]}" for number, line in numbered]
        if omitted:
            lines.append(
                f"[The project is large: only its first {len(parts):,} parts are searched, {omitted:,} files are not.]"
            )
        return "\n".join(lines)

    def _read(self, cancelled: Callable[[], bool]) -> None:
        """Raises `CodeError`."""
        listed, _ = list_files(self._folder, _FILES, _LISTING_SECONDS, cancelled)
        confined, files = ConfinedFolder(self._folder), {}
        count = omitted = 0
        for path in listed:
            if count >= MOST or cancelled():
                omitted += 1
                continue
            with suppress(ConfinedFolderError, OSError):  # it is binary, too large, or gone
                status = (self._folder / path).stat()
                stamp, known = (status.st_mtime_ns, status.st_size), self._files.get(path)
                if known is None or known[0] != stamp:
                    known = (stamp, _split_file(path, confined.read_text(path)))
                files[path] = known
                count += len(known[1])
        if files == self._files and self._index is not None:
            return
        self._files, self._omitted = files, omitted
        self._parts = {
            f"{part.path}:{part.first}": part for _, parts in files.values() for part in parts
        }
        self._texts = {key: f"{part.path}\n{part.text}" for key, part in self._parts.items()}
        if self._index is not None:
            self._index.close()
        self._index = SkillsIndex(
            Skill(key, part.path, None, part.text, Path(part.path))
            for key, part in self._parts.items()
        )


def _split_file(path: str, text: str) -> list[_Part]:
    """Divide where definitions begin, and where a part is long."""
    parts: list[_Part] = []
    lines: list[str] = []
    first = size = 0
    for number, line in enumerate(split_lines(text), 1):
        full = len(lines) >= _LINES or size + len(line) > _CHARACTERS
        if lines and (full or (len(lines) >= _FEW_LINES and _TOP.match(line))):
            parts.append(_Part(path, first, "\n".join(lines)))
            lines, size = [], 0
        if not lines:
            first = number
        lines.append(line[:_CHARACTERS])
        size += len(line)
    if lines:
        parts.append(_Part(path, first, "\n".join(lines)))
    return [part for part in parts if part.text.strip()][:_FILE_PARTS]
