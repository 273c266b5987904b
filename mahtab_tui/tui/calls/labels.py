"""Short texts about a node, of steady width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.sandbox.text import TextSpan
from mahtab_tui.search.node import STATES, BudgetLeft, FanOut, SearchNode, State, UsageSum

_LOOKED_AT = 400
"""Characters of a text that are used for one line."""


def one_line(text: str) -> str:
    """Return the start of a text from outside in one line, safe to draw."""
    return " ".join(plain(text[:_LOOKED_AT]).split())


def short_number(number: float) -> str:
    """Format a number: ``980``, ``12.4k``, ``3.1M``."""
    if number >= 999_950:
        return f"{number / 1e6:.1f}M"
    return f"{number / 1e3:.1f}k" if number >= 1_000 else str(int(number))


def short_time(seconds: float) -> str:
    """Format a duration: ``4.2 s``, ``123 s``, ``31 min``; at most seven cells below 100 hours."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 999.5 else f"{seconds / 60:.0f} min"


def short_cost(used: UsageSum) -> str:
    """Format the cost: ``$0.03``; with a + if not all prices are known, empty if none is."""
    if used.unpriced == used.calls:
        return ""
    return short_dollars(used.cost) + ("+" if used.unpriced else "")


def short_dollars(usd: float) -> str:
    """Format US dollars: ``$0.03``; less than a cent as ``$.004``."""
    return f"${usd:.2f}" if usd >= 0.00995 or not usd else f"${usd:.3f}".replace("$0.", "$.")


def count_of(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def place(spans: Sequence[TextSpan]) -> str:
    """Return the position of a node's text in the root's: ``2.1–4.2M``."""
    if not spans:
        return ""
    if len(spans) > 1 and any(start != end for (_, end), (start, _) in pairwise(spans)):
        return f"{len(spans)} places"
    start, end = short_number(spans[0][0]), short_number(spans[-1][1])
    if start[-1] == end[-1] and start[-1].isalpha():
        start = start[:-1]
    return f"{start}–{end}"


def is_part(node: SearchNode) -> bool:
    """Return whether the node is one of several with the same query; these are named by their
    position in the text."""
    return node.batch is not None and node.batch.of > 1 and node.replaces is None


def label(node: SearchNode) -> str:
    """Return a node's name: the position in the text for a part, otherwise its query."""
    if is_part(node):
        return place(node.spans) or f"part {node.index + 1}"
    query = one_line(node.query)
    return f"“{query}”" if node.kind == "llm" else query


def detail(node: SearchNode, now: float) -> str:
    """Return what a node does now, or its result."""
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
        return (
            f"turn {turn}  {one_line(node.last_line)}"
            if node.kind != "llm"
            else one_line(node.last_line)
        )
    return ""


def totals(used: UsageSum, depth: str) -> str:
    """Return what a search has used so far, and its depth."""
    words = [
        count_of(used.calls, "call"),
        f"{short_number(used.tokens)} tok",
        short_cost(used),
        f"depth {depth}",
    ]
    return " · ".join(filter(None, words))


def budget(left: BudgetLeft) -> str:
    """Return what is left of the budgets; empty if there are none."""
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
    """Yield each state and its number of parts, if any; thinking counts as running."""
    for state in STATES:
        number = batch.count(state) + (batch.count("thinking") if state == "running" else 0)
        if number and state != "thinking":
            yield state, number
