"""The answer of a search: a str with what is known about it, and its value in the form that the
caller wants."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .answer_form import WrongForm, described, read_as
from .logged import Logged, Packed
from .spans import Span, in_contexts

if TYPE_CHECKING:
    from .contexts import NamedContext

_CORRECTIONS = 2
"""How often an answer of another form is sent back."""
_LONGEST = 20_000
"""Characters of an earlier answer that are sent back with it."""
_FORM = "{query}\n\nAnswer with data of this form, in JSON: {form}. FINAL takes the value itself."
_AGAIN = """{query}

An earlier answer was not of that form: {wrong}
If only its form is wrong, give it anew at once. It was:
{answer}"""


class SearchUsage(NamedTuple):
    """Usage of a search."""

    calls: int
    """Model calls."""
    tokens: int
    """Read and written."""
    usd: float
    """US dollars for the calls whose price is known."""
    seconds: float


class Result(NamedTuple):
    """How a search has ended."""

    text: str
    partial: bool
    why: str
    """A sentence saying why it is partial."""
    usage: SearchUsage
    spans: tuple[tuple[int, int], ...]
    packed: Packed = b""
    """The log."""


class Answer(Logged, str):
    """The answer of a search: a str that also has a value. `log` has the events of its search,
    `tree` the calls."""

    value: Any
    """The answer in the form that `returns` asked for; without it, the text. None if it has another
    form: `why` says which."""
    state: str
    """"answered", or "partial": the best answer that there was."""
    why: str
    """Why it is partial; empty if it is not."""
    usage: SearchUsage
    spans: tuple[Span, ...]
    """The parts of the text that it rests on: start and end in characters, as far as they are
    known. `context` is the name of each one's."""


def answered(
    query: str,
    returns: Any,
    search: Callable[[str], Result],
    failures: tuple[type[Exception], ...],
    *,
    raw: bool = False,
    contexts: Sequence[NamedContext] = (),
) -> Answer:
    """Search until the answer has the form that the caller wants, at most three times.

    search: runs a search, or goes on with it, for a query. failures: what it may raise then, which
    leaves the earlier answer. contexts: those that have names. Raises `TypeError` if `returns` is
    not a form, and what `search` raises at first.
    """
    if returns is None:
        result = search(query)
        return _made(result, result.text, "", contexts)
    query = _FORM.format(query=query, form=described(returns))
    result, wrong = search(query), ""
    for tries in range(_CORRECTIONS + 1):
        try:
            return _made(result, read_as(returns, result.text, raw=raw), "", contexts)
        except WrongForm as error:
            wrong = str(error)
        if result.partial or tries == _CORRECTIONS:
            break
        try:
            result = search(_AGAIN.format(query=query, wrong=wrong, answer=result.text[:_LONGEST]))
        except failures as error:
            wrong = f"{wrong} ({error})"
            break
    why = f"The answer does not have the requested form: {wrong}"
    warnings.warn(why, stacklevel=3)
    return _made(result, None, why, contexts)


def _made(result: Result, value: Any, wrong: str, contexts: Sequence[NamedContext]) -> Answer:
    answer = Answer(result.text)
    answer.value, answer.why = value, wrong or result.why
    answer.state = "partial" if wrong or result.partial else "answered"
    answer.usage, answer.spans = result.usage, in_contexts(result.spans, contexts)
    answer._packed, answer._contexts = result.packed, tuple(contexts)
    return answer
