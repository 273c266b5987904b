"""How the calls of a search are described in a few words: their states, what they do, took and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.search.tree_nodes import SearchNode, State
from mahtab_tui.tui.rows.row import FRAME_RATE, FRAMES
from mahtab_tui.tui.widgets.bars import short_number

Role = Literal["person", "model", "highlight", "good", "bad", "hairline", "muted", "text"]
"""A colour of the palette."""


class NodeMark(NamedTuple):
    """How the state of a node is drawn."""

    sign: str
    """A single character."""
    role: Role
    """The colour of the sign."""


RUNNING_SIGNS = "◐◓◑◒"
"""The signs that follow each other while the code of a node runs."""
RUNNING_SIGNS_PER_S = 4
MARKS: Mapping[State, NodeMark] = {
    "waiting": NodeMark("◌", "muted"),
    "thinking": NodeMark("◉", "model"),
    "running": NodeMark("●", "highlight"),
    "done": NodeMark("✓", "good"),
    "partial": NodeMark("≈", "highlight"),
    "error": NodeMark("✗", "bad"),
    "stopped": NodeMark("■", "muted"),
}
ASKING_MARK = NodeMark("?", "highlight")
_MAX_LINE_CHARS = 400
"""Only this many characters of a text are prepared for a line: none is as wide."""


def node_mark(node: SearchNode, now: float) -> NodeMark:
    """Return the mark of a node. It moves while the node itself works, and not a node below it.

    Args:
        node: The node.
        now: The time in seconds since the epoch, which selects the sign of a mark that moves.
    """
    if _waits_for_user(node):
        return ASKING_MARK
    mark = MARKS[node.state]
    if node.running_descendants:
        return mark
    if node.state == "thinking":
        sign_index = int(now * FRAME_RATE) % len(FRAMES)
        return mark._replace(sign=FRAMES[sign_index])
    if node.state == "running":
        sign_index = int(now * RUNNING_SIGNS_PER_S) % len(RUNNING_SIGNS)
        return mark._replace(sign=RUNNING_SIGNS[sign_index])
    return mark


def one_line(text: str) -> str:
    """Return the start of a text from outside as one line, without control characters."""
    return " ".join(plain(text[:_MAX_LINE_CHARS]).split())


def short_time(seconds: float) -> str:
    """Return a duration such as ``4.2 s``, ``123 s`` or ``31 min``."""
    # At these limits, rounding gives the number another digit.
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    if seconds < 999.5:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min"


def short_cost(usage: UsageStats) -> str:
    """Return a cost such as ``$0.03``; ``$0.03+`` if some prices are unknown, empty if all are."""
    if usage.unpriced_calls == usage.calls:
        return ""
    dollars = short_dollars(usage.cost)
    return f"{dollars}+" if usage.unpriced_calls else dollars


def short_dollars(usd: float) -> str:
    """Return US dollars such as ``$0.03`` or ``$.004``."""
    if usd >= 0.00995 or not usd:
        return f"${usd:,.2f}"
    return f"${usd:,.3f}".replace("$0.", "$.")


def format_count(count: int, noun: str) -> str:
    """Return a count such as ``1 call`` or ``1,200 calls``."""
    plural = "" if count == 1 else "s"
    return f"{count:,} {noun}{plural}"


def describe_position(spans: Sequence[TextSpan]) -> str:
    """Return where the text of a node stands in the root's text, such as ``2.1–4.2M``.

    Args:
        spans: The places, in characters; empty if they are not known.
    """
    if not spans:
        return ""
    if any(end != start for (_, end), (start, _) in pairwise(spans)):
        return f"{len(spans):,} places"
    start = short_number(spans[0][0])
    end = short_number(spans[-1][1])
    # Write a unit once if both have it.
    if start[-1] == end[-1] and start[-1].isalpha():
        start = start[:-1]
    return f"{start}–{end}"


def is_part(node: SearchNode) -> bool:
    """Return whether a node is one of several parallel calls."""
    return node.fan_out is not None and node.fan_out.part_count > 1


def label(node: SearchNode) -> str:
    """Return the text with which the line of a node begins: its place in the text, or its query."""
    if is_part(node):
        return describe_position(node.spans) or f"part {node.part_index + 1}"
    query = one_line(node.query)
    return f"“{query}”" if node.kind == "llm" else query


def detail(node: SearchNode, now: float) -> str:
    """Return what a node does now, or its answer; empty if it has not started.

    Args:
        node: The node.
        now: The time in seconds since the epoch.
    """
    if _waits_for_user(node):
        return "waits for you"
    if node.state == "waiting":
        return _waiting_detail(node, now)
    if node.is_cut_off and node.state == "stopped":
        return "cut off here"
    if node.finished:
        answer = one_line(node.answer)
        return answer or ("stopped" if node.state == "stopped" else "")
    if not node.turns:
        return ""
    last_line = one_line(node.last_line)
    if node.kind == "llm":
        return last_line
    return f"turn {node.turns[-1].number}  {last_line}"


def _waiting_detail(node: SearchNode, now: float) -> str:
    """Return what a node waits for; empty if it has not begun."""
    if node.retry_at is not None:
        return f"overloaded, again in {max(0.0, node.retry_at - now):,.0f} s"
    return "waits for its turn" if node.turns else ""


def _waits_for_user(node: SearchNode) -> bool:
    """Return whether a node asks the user if it may make many calls."""
    return any(fan_out.is_waiting for fan_out in node.fan_outs.values())
