"""What a node's line says, in few and steady cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.sandbox.text import Span
from mahtab_tui.search.node import STATES, BudgetLeft, FanOut, SearchNode, State, UsageSum

_LOOKED_AT = 400
"""Characters of a text that one line is made from."""


def one_line(text: str) -> str:
    """The beginning of a text from outside on one line, fit to be drawn."""
    return " ".join(plain(text[:_LOOKED_AT]).split())


def short_number(number: float) -> str:
    """``980``, ``12.4k``, ``3.1M``."""
    if number >= 999_950:
        return f"{number / 1e6:.1f}M"
    return f"{number / 1e3:.1f}k" if number >= 1_000 else str(int(number))


def short_time(seconds: float) -> str:
    """``4.2 s``, ``123 s``, ``31 min``; never wider than six cells below 100 hours."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 999.5 else f"{seconds / 60:.0f} min"


def short_cost(used: UsageSum) -> str:
    """``$0.03``; with a + where not all prices are known, empty where none is."""
    if used.unpriced == used.calls:
        return ""
    return short_dollars(used.cost) + ("+" if used.unpriced else "")


def short_dollars(usd: float) -> str:
    """``$0.03``; of less than a cent, ``$.004``."""
    return f"${usd:.2f}" if usd >= 0.00995 or not usd else f"${usd:.3f}".replace("$0.", "$.")


def count_of(number: int, what: str) -> str:
    """``1 call``, ``12 calls``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def place(spans: Sequence[Span]) -> str:
    """Where a node's text stands in the root's: ``2.1–4.2M``."""
    if not spans:
        return ""
    if len(spans) > 1 and any(start != end for (_, end), (start, _) in pairwise(spans)):
        return f"{len(spans)} places"
    start, end = short_number(spans[0][0]), short_number(spans[-1][1])
    if start[-1] == end[-1] and start[-1].isalpha():
        start = start[:-1]
    return f"{start}–{end}"


def is_part(node: SearchNode) -> bool:
    """Whether others are asked the same: then it is called by its place in the text."""
    return node.batch is not None and node.batch.of > 1 and node.replaces is None


def label(node: SearchNode) -> str:
    """What a node is called: a part by its place in the text, anything else by its question."""
    if is_part(node):
        return place(node.spans) or f"part {node.index + 1}"
    query = one_line(node.query)
    return f"“{query}”" if node.kind == "llm" else query


def detail(node: SearchNode, now: float) -> str:
    """What a node does now, or came to."""
    if any(batch.asks for batch in node.batches.values()):
        return "waits for you"
    if node.state == "waiting":
        if node.back_off is None:
            return "waits for its turn" if node.turns else ""
        return f"overloaded, again in {max(0.0, node.back_off - now):.0f} s"
    if node.state == "stopped":
        return "cut off here" if node.cut else one_line(node.answer) or "stopped"
    if node.finished:
        late = "late: " if node.late else ""
        return late + one_line(node.answer)
    if turn := node.turns[-1].number if node.turns else 0:
        return f"turn {turn}  {one_line(node.last_line)}" if node.kind != "llm" else one_line(node.last_line)
    return ""


def totals(used: UsageSum, depth: str) -> str:
    """What a search has used so far, and how deep it went."""
    words = [count_of(used.calls, "call"), f"{short_number(used.tokens)} tok", short_cost(used), f"depth {depth}"]
    return " · ".join(filter(None, words))


def budget(left: BudgetLeft) -> str:
    """What is left of the budgets; empty where there are none."""
    words = []
    if left.calls is not None:
        words.append(count_of(left.calls, "call"))
    if left.tokens is not None:
        words.append(f"{short_number(left.tokens)} tok")
    if left.usd is not None:
        words.append(short_dollars(left.usd))
    if left.seconds is not None:
        words.append(short_time(left.seconds))
    return " · ".join(words)


def tally(batch: FanOut) -> Iterator[tuple[State, int]]:
    """How many parts are in which state, without the empty ones; those that think run."""
    for state in STATES:
        number = batch.count(state) + (batch.count("thinking") if state == "running" else 0)
        if number and state != "thinking":
            yield state, number
