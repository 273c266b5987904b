"""Usage and cost of model calls, and a session's limit."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from rich.cells import cell_len, set_cell_size

from mahtab_tui.bus.records import Record, SearchBegin, Usage, UserChat
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.llm.base import is_loopback

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages.ai import UsageMetadata

    from mahtab_tui.llm.chat_protocols import AnswerEnd

_PIECE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]{1,8}|\d|[^\w\s]{1,3}|_+")
"""About one token of text, code, output or JSON; `tests/data/token_counts.json` has counts of
OpenAI's tokenizers to compare with."""
_FRAME_TOKENS = 4


def estimated_tokens(texts: Iterable[str]) -> int:
    return sum(_FRAME_TOKENS + len(_PIECE.findall(text)) for text in texts)


LOCAL = "local"
DEAR = (5e-6, 25e-6)
"""US dollars for a token read and a token written by an expensive model, for estimates if prices
are unknown."""
_MANY = 1_000
_MOST = 32_000
_BYTES_PER_TOKEN = 3
"""UTF-8 bytes: safe for English (four), code and Chinese (three)."""
_FRAME = 10
_PICTURE = 3_400
"""Tokens of the largest picture that is sent (see `pictures.EncodedPicture.tokens`)."""
_UNKNOWN_WINDOW = 64_000
"""Tokens that a model is assumed to read; one that reads less fails, and is asked again with
less."""
_ANSWER_ROOM = 8_192
"""Tokens kept for the answer; at most a quarter of the window."""
MAX_SMALL_PARAMETERS = 9_000_000_000
"""Parameters up to which a model is small."""
_SIZE_IN_NAME = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,2})?)b(?![a-z0-9])", re.IGNORECASE)
"""A number of parameters in billions, as in "qwen2.5-coder:1.5b"."""


class Tariff(NamedTuple):
    model: str
    priced_as: str
    max_tokens: int | None

    @property
    def needs_table(self) -> bool:
        return not _is_on_this_machine(self.priced_as)


def estimate_message_tokens(texts: Iterable[str], pictures: int = 0) -> int:
    """Estimate the tokens of messages with these texts and so many pictures, rather too high than
    too low."""
    return pictures * _PICTURE + sum(
        _FRAME + len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN for text in texts
    )


def input_limit(llm: BaseChatModel) -> int:
    window = context_window(llm) or _UNKNOWN_WINDOW
    return window - min(_ANSWER_ROOM, window // 4)


def context_window(llm: BaseChatModel) -> int | None:
    """Return how many tokens a model can read; None if unknown."""
    known = getattr(llm, "window", None)
    if isinstance(known, int) or priced_as(llm) == LOCAL:
        return known if isinstance(known, int) else None
    found = _look_up_price(priced_as(llm), model_name(llm), input_tokens=1, output_tokens=1)
    return None if found is None else found.model.context_window


def is_small(llm: BaseChatModel) -> bool:
    """Tell whether a model has at most `MAX_SMALL_PARAMETERS`, as its server says, or its name. A
    model of unknown size is not small."""
    parameters = getattr(llm, "parameters", None)
    if isinstance(parameters, int):
        return parameters <= MAX_SMALL_PARAMETERS
    size = _SIZE_IN_NAME.search(model_name(llm))
    return size is not None and float(size[1]) * 1e9 <= MAX_SMALL_PARAMETERS


def reported_usage(
    llm: BaseChatModel, usage: UsageMetadata | None, metadata: Mapping[str, Any]
) -> Usage | None:
    """Read the usage of a call from LangChain's chunks; None if nothing was reported."""
    if usage is None and "cost_usd" not in metadata:
        return None
    counts: Any = usage or {}
    details = counts.get("input_token_details") or {}
    used = Usage(
        model=str(metadata.get("model_name") or metadata.get("model") or ""),
        input_tokens=counts.get("input_tokens", 0),
        output_tokens=counts.get("output_tokens", 0),
        cache_read_tokens=details.get("cache_read", 0),
        cache_creation_tokens=details.get("cache_creation", 0),
    )
    if "cost_usd" in metadata:
        return used.changed(cost=metadata["cost_usd"])
    return with_cost(used, priced_as(llm), metadata.get("cost"))


def answer_usage(tariff: Tariff, end: AnswerEnd) -> Usage | None:
    """Read the usage of a call from the end of our client's answer."""
    if end.usage is None:
        return None
    used = Usage(
        model=end.model or tariff.model,
        input_tokens=end.usage.read,
        output_tokens=end.usage.written,
        cache_read_tokens=end.usage.from_cache,
        cache_creation_tokens=end.usage.to_cache,
    )
    return with_cost(used, tariff.priced_as, end.cost)


def with_cost(used: Usage, provider: str, reported: object = None) -> Usage:
    """Add the cost of a call. provider: see `price`. reported: by OpenRouter, which may send
    anything."""
    is_number = isinstance(reported, int | float) and not isinstance(reported, bool)
    if is_number and 0 <= reported < math.inf:  # type: ignore[operator]
        return used.changed(cost=float(reported))  # type: ignore[arg-type]
    counts = used.input_tokens, used.output_tokens
    cached = used.cache_read_tokens, used.cache_creation_tokens
    return used.changed(cost=price(provider, used.model, *counts, *cached))


def estimated_usage(
    llm: BaseChatModel, asked: Iterable[str], answer: str, pictures: int = 0
) -> Usage:
    """Estimate the usage of a call that ended before the model reported it."""
    model = model_name(llm)
    read, written = estimate_message_tokens(asked, pictures), estimate_message_tokens([answer])
    cost = price(priced_as(llm), model, read, written)
    return Usage(model=model, input_tokens=read, output_tokens=written, cost=cost, estimated=True)


def worst_cost(
    llm: BaseChatModel | Tariff,
    asked: Iterable[str],
    pictures: int = 0,
    max_tokens: int | None = None,
) -> float | None:
    """Return the US dollars that a call may cost at most; None if the price is unknown. max_tokens:
    None: the model's limit."""
    if callable(known := getattr(llm, "worst_cost", None)):
        cost: float | None = known()
        return cost
    read = estimate_message_tokens(asked, pictures)
    written = getattr(llm, "max_tokens", None) or _MOST
    written = written if max_tokens is None else min(written, max_tokens)
    cost = price(priced_as(llm), model_name(llm), read, written)
    if cost is None and getattr(llm, "reports_cost", False):
        return read * DEAR[0] + written * DEAR[1]
    return cost


def usd_per_token(llm: BaseChatModel | Tariff) -> tuple[float, float]:
    """Return US dollars for a token read and a token written; those of an expensive model if
    unknown."""
    read = price(priced_as(llm), model_name(llm), _MANY, 0)
    written = price(priced_as(llm), model_name(llm), 0, _MANY)
    return DEAR if read is None or written is None else (read / _MANY, written / _MANY)


def is_priced(llm: BaseChatModel | Tariff) -> bool:
    """Tell whether the cost of a call is known, at least after it."""
    reports = bool(getattr(llm, "reports_cost", False))
    return reports or price(priced_as(llm), model_name(llm), _MANY, _MANY) is not None


def model_name(llm: BaseChatModel | Tariff) -> str:
    name = getattr(llm, "model_name", None) or getattr(llm, "model", None)
    return name if isinstance(name, str) else ""


def priced_as(llm: BaseChatModel | Tariff) -> str:
    named = getattr(llm, "priced_as", None)
    if isinstance(named, str):
        return named
    return str(getattr(llm, "_llm_type", "")).removesuffix("-chat").removeprefix("chat-")


def is_on_this_machine(llm: BaseChatModel) -> bool:
    return hasattr(llm, "provider") and _is_on_this_machine(priced_as(llm))


def _is_on_this_machine(provider: str) -> bool:
    return provider == LOCAL or is_loopback(urlsplit(provider).hostname or "")


def price(
    provider: str,
    model: str,
    input_tokens: int,
    output_tokens: int,
    cache_read_tokens: int = 0,
    cache_creation_tokens: int = 0,
) -> float | None:
    """Return US dollars for a call by genai-prices; None if unknown. provider: its name there, a
    service's address, or `LOCAL`."""
    if provider == "ollama" or _is_on_this_machine(provider):
        return 0.0
    counts = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    cached = {"cache_read_tokens": cache_read_tokens, "cache_write_tokens": cache_creation_tokens}
    found = _look_up_price(provider, model, **counts, **cached)
    return None if found is None else float(found.total_price)


def _look_up_price(provider: str, model: str, **used: int) -> PriceCalculation | None:
    from genai_prices import Usage, calc_price

    provider_id = "openrouter" if "/" in model else provider or None
    where: dict[str, Any] = {"provider_id": provider_id}
    if "://" in provider:
        where = {"provider_api_url": provider}
    try:
        return calc_price(Usage(**used), model_ref=model, **where)
    except (LookupError, ValueError):  # an unknown model, or inconsistent counts
        return None


@dataclass
class UsageStats:
    cost: float = 0.0
    input_tokens: int = 0
    """All tokens read, including those from the cache and those written to it."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    calls: int = 0
    unpriced_calls: int = 0

    def add(self, used: Usage) -> None:
        self.calls += 1
        self.unpriced_calls += used.cost is None
        self.cost += used.cost or 0.0
        self.input_tokens += used.input_tokens
        self.output_tokens += used.output_tokens
        self.cache_read_tokens += used.cache_read_tokens
        self.cache_creation_tokens += used.cache_creation_tokens


_NAMES = range(16, 41)
_FIGURES = 52
"""Cells of the rest of a line."""


class OverBudget(Exception):
    """A call could cost more than is left; the message is a sentence."""

    def __init__(self, message: str, *, later: bool = False) -> None:
        super().__init__(message)
        self.later = later


class Spending:
    """Counts what the models of a session or a search use, and enforces a limit in dollars, for any
    threads."""

    def __init__(self, max_usd: Callable[[], float | None] = lambda: None) -> None:
        self.total = UsageStats()
        self._parts: dict[int | str, UsageStats] = {}
        self._names: dict[int | str, str] = {}
        self._max_usd = max_usd
        self._reserved: list[float] = []
        self._unpriced_model = ""
        """The model of a call that did not report its price while there was a limit."""
        self._lock = threading.Lock()

    @property
    def max_usd(self) -> float | None:
        return self._max_usd()

    def resume(self, past: Iterable[Record]) -> None:
        for record in past:
            if isinstance(record, Usage):
                self.fold(record)
            elif isinstance(record, SearchBegin):
                self.name(record)
            elif isinstance(record, UserChat) and record.turn is not None:
                self.name_question(record.turn, record.text)

    def name(self, search: SearchBegin) -> None:
        with self._lock:
            self._names.setdefault(search.tree, one_line(search.text[: _NAMES[-1]]).strip())

    def name_question(self, turn: int, words: str) -> None:
        with self._lock:
            self._names[turn] = one_line(words[: _NAMES[-1]]).strip()

    def question(self, turn: int) -> UsageStats:
        """Return what a question has used so far."""
        with self._lock:
            return replace(self._parts.get(turn, UsageStats()))

    def fold(self, used: Usage) -> None:
        with self._lock:
            self.total.add(used)
            part = used.turn if used.tree is None else used.tree
            if part is not None:
                self._parts.setdefault(part, UsageStats()).add(used)

    def count(self, used: Usage) -> None:
        self.fold(used)
        if used.cost is None and self.max_usd is not None:
            self._unpriced_model = used.model or "the model"

    @contextmanager
    def within_limit(
        self, model: str, worst: Callable[[], float | None], expected: float | None = None
    ) -> Iterator[None]:
        """Enclose a call, whose cost is counted inside. worst: the most US dollars that it may
        cost. expected: those that must be left if no other call runs. Raises `OverBudget`."""
        if self.max_usd is None:
            yield
            return
        usd = worst()
        with self._lock:
            self._check(model, usd, expected)
            self._reserved.append(usd or 0.0)
        try:
            yield
        finally:
            with self._lock:
                self._reserved.remove(usd or 0.0)

    def _check(self, model: str, usd: float | None, expected: float | None) -> None:
        limit = self.max_usd
        if limit is None:
            return
        if self._unpriced_model:
            raise OverBudget(
                f"A call of {self._unpriced_model} did not report its price, so the limit of ${limit:.2f} (max_usd) can no longer be enforced."
            )
        if usd is None:
            raise OverBudget(
                f"The price of {model} is unknown, so the limit of ${limit:.2f} (max_usd) cannot be enforced. Choose another model."
            )
        alone = usd if expected is None else expected
        wanted = sum(self._reserved) + usd if self._reserved else alone
        if self.total.cost + wanted > limit:
            left = max(0.0, limit - self.total.cost - sum(self._reserved))
            raise OverBudget(
                f"The model was not asked: the call could cost up to ${usd:.4f}, and ${left:.4f} of the session's limit of ${limit:.2f} (max_usd) is left.",
                later=self.total.cost + alone <= limit,
            )

    def table(self, width: int = 80) -> str:
        """Format a table for the user. width: of a line, in cells."""
        room = min(max(width - _FIGURES, _NAMES[0]), _NAMES[-1])
        rows = [("session", self.total)]
        with self._lock:
            for turn in sorted(part for part in self._parts if isinstance(part, int)):
                name = f"question {turn} {self._names.get(turn, '')}".rstrip()
                rows.append((name, self._parts[turn]))
            for tree in (part for part in self._parts if isinstance(part, str)):
                rows.append((f"search {self._names.get(tree) or tree}", self._parts[tree]))
            lines = [f"{'':<{room}}{'calls':>6}{'read':>12}{'of cache':>12}{'written':>10}  cost"]
            lines += [_row(name, stats, room) for name, stats in rows]
        if (limit := self.max_usd) is not None:
            left = max(0.0, limit - self.total.cost)
            lines.append(f"The session's limit is ${limit:.2f} (max_usd); ${left:.4f} is left.")
        return "\n".join(lines)


def _row(name: str, stats: UsageStats, room: int) -> str:
    cost = f"${stats.cost:.4f}{'+' if stats.unpriced_calls else ''}"
    if stats.calls and stats.unpriced_calls == stats.calls:
        cost = "unknown"
    tokens = f"{stats.input_tokens:>12,}{stats.cache_read_tokens:>12,}{stats.output_tokens:>10,}"
    if cell_len(name) >= room:
        name = set_cell_size(name, room - 2) + "…"
    return f"{set_cell_size(name, room)}{stats.calls:>6,}{tokens}  {cost}"
