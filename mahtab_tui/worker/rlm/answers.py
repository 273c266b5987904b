"""The answer of a search, and how a search is repeated until it has the requested form."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .answer_form import WrongForm, is_container
from .answer_reading import read_as
from .form_description import describe_form
from .logged import Logged, Packed
from .search_log import Span, to_context_spans

if TYPE_CHECKING:
    from .contexts import NamedContext

_EXACT_QUERY = re.compile(
    r"""
    \b (?:
        how[ ](?:many|much|often) | count | number[ ]of
        | sum | total | altogether | all[ ]in[ ]all | add[ ]up
        | average | mean | median | percentage | share[ ]of
        | maximum | largest | highest | longest | heaviest | biggest | latest | the[ ]most[ ]that
        | minimum | smallest | lowest | shortest | lightest | earliest
        | sort(?:ed)? | duplicates?
    ) \b
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Words of queries that code answers exactly, and a reading model does not."""

_MAX_CORRECTIONS = 2
"""How often the model is asked for the answer in another form."""
_MAX_ANSWER_CHARS = 20_000
"""Characters of an earlier answer that are shown to the model."""
FORM = "\n\nAnswer with data of this form, in JSON: "
"""What introduces the form in a query."""
_QUERY_WITH_FORM = f"{{query}}{FORM}{{form}}. FINAL takes the value itself."
_CORRECTION_QUERY = """{query}

An earlier answer was not of that form: {mistake}
If only its form is wrong, give it anew at once. It was:
{answer}"""


class SearchUsage(NamedTuple):
    """What a search has cost."""

    calls: int
    """How often a model was called."""
    tokens: int
    """Read and written by all calls together."""
    usd: float
    """The price in US dollars."""
    seconds: float
    """How long the search took."""


class Result(NamedTuple):
    """What a search has found, without a form."""

    text: str
    partial: bool
    """Whether a limit has ended the search."""
    why: str
    """Why it is partial; else how the text was searched."""
    usage: SearchUsage
    spans: tuple[tuple[int, int], ...]
    """The parts of the whole text that support it, in characters."""
    packed: Packed = b""
    """The events of the search, compressed."""


class Answer(Logged, str):
    """The answer of a search: a str that also has a value. `log` contains the events of its search,
    `tree` the calls."""

    value: Any
    """The answer in the form requested by `returns`; by default the text. None if it does not have
    that form; then `why` says so."""
    state: str
    """Either "answered", or "partial" for the best answer there was."""
    why: str
    """Why it is partial; else how the text was searched: read at once, or by code."""
    usage: SearchUsage
    spans: tuple[Span, ...]
    """The parts of the text that support the answer; `context` names the text of each."""

    # What IPython and Jupyter call to display a value.
    def _repr_markdown_(self) -> str:
        return str(self)


def needs_code(query: str, returns: object, tools: Sequence[object]) -> bool:
    """Return whether a search should run code though a model could read its text at once."""
    return bool(tools) or is_container(returns) or _EXACT_QUERY.search(query) is not None


def search_for_form(
    query: str,
    returns: object,
    search: Callable[[str], Result],
    failures: tuple[type[Exception], ...],
    *,
    raw: bool = False,
    contexts: Sequence[NamedContext] = (),
) -> Answer:
    """Search until the answer has the requested form, at most three times.

    Args:
        query: The question.
        returns: The form; None or str for any text.
        search: Searches once.
        failures: Exceptions of later searches, which keep the earlier answer.
        raw: Whether to keep control characters in the value.
        contexts: The texts that were searched, if they have names.

    Returns:
        The last answer, with a warning if it does not have the form.

    Raises:
        TypeError: There is no such form.
    """
    if returns is None or returns is str:
        result = search(query)
        return _make_answer(result, result.text, "", contexts)

    query = _QUERY_WITH_FORM.format(query=query, form=describe_form(returns))
    result = search(query)
    reading = _read(returns, result.text, raw=raw)
    for _ in range(_MAX_CORRECTIONS):
        # A search that a limit has ended would reach it again at once.
        if not reading.mistake or result.partial:
            break
        correction = _CORRECTION_QUERY.format(
            query=query, mistake=reading.mistake, answer=result.text[:_MAX_ANSWER_CHARS]
        )
        try:
            result = search(correction)
        except failures as error:
            reading = _Reading(None, f"{reading.mistake} ({error})")
            break
        reading = _read(returns, result.text, raw=raw)

    problem = ""
    if reading.mistake:
        problem = f"The answer does not have the requested form: {reading.mistake}"
        warnings.warn(problem, stacklevel=3)
    return _make_answer(result, reading.value, problem, contexts)


class _Reading(NamedTuple):
    """An answer, read as a value of its form."""

    value: object
    mistake: str
    """Why the answer does not have the form, as a sentence for the model; empty if it has."""


def _read(form: object, text: str, *, raw: bool) -> _Reading:
    try:
        return _Reading(read_as(form, text, raw=raw), "")
    except WrongForm as error:
        return _Reading(None, str(error))


def _make_answer(
    result: Result, value: object, form_problem: str, contexts: Sequence[NamedContext]
) -> Answer:
    """Return the answer that a cell gets.

    Args:
        result: What the last search has found.
        value: The answer in the requested form; None if it does not have that form.
        form_problem: A sentence saying why it does not; empty if it does.
        contexts: The texts that were searched, if they have names.
    """
    answer = Answer(result.text)
    answer.value = value
    answer.why = form_problem or result.why
    answer.state = "partial" if form_problem or result.partial else "answered"
    answer.usage = result.usage
    answer.spans = to_context_spans(result.spans, contexts)
    answer._packed = result.packed
    answer._contexts = tuple(contexts)
    return answer
