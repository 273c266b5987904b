"""What the user is asked, in words."""

from __future__ import annotations

from mahtab_tui.bus.records import Review, SearchFanOut
from mahtab_tui.bus.sanitize import one_line

MIN_TOKENS_IN_MILLIONS = 100_000
"""At least this many tokens are given in millions."""


def describe_fan_out(request: SearchFanOut) -> str:
    """Say what a search asks for: ``340 calls at once, about 1.2 M tokens, about $1.10``, or ``40
    calls more after 50, at an unknown price``."""
    clauses = [_describe_calls(request)]
    if request.tokens is not None:
        clauses.append(f"about {_format_tokens(request.tokens)} tokens")
    if request.usd is None:
        clauses.append("at an unknown price")
    else:
        clauses.append(f"about ${request.usd:,.2f}")
    return ", ".join(clauses)


def _describe_calls(request: SearchFanOut) -> str:
    """Return how many calls a search asks for, and how many it has made."""
    # The code of a search may make calls in a loop, of which nobody knows the end.
    if request.calls is None:
        calls = "many calls"
    elif request.calls == 1:
        calls = "1 call"
    else:
        calls = f"{request.calls:,} calls"

    if request.made:
        return f"{calls} more after {request.made:,}"
    return f"{calls} at once"


def _format_tokens(token_count: int) -> str:
    """Return a number of tokens: ``90,000``, ``1.2 M``."""
    if token_count < MIN_TOKENS_IN_MILLIONS:
        return f"{token_count:,}"
    return f"{token_count / 1e6:.1f} M"


def review_question(record: Review) -> str:
    """Ask whether to keep what cells of a model changed."""
    cell = f"cell {record.cells[0]} of {one_line(record.party or 'the model')}"
    later_count = len(record.cells) - 1
    if later_count == 1:
        cell += " and the cell after it"
    elif later_count > 1:
        cell += f" and {later_count:,} cells after it"
    return f"Keep or undo what {cell} changed?"
