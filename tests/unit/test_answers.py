"""How often an answer of another form is sent back, and what is left of it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from mahtab_tui.worker.answers import Answer, Result, SearchUsage, search_for_form

USAGE = SearchUsage(3, 100, 0.5, 2.0)


class Failed(Exception):
    """The search failed."""


def result(text: str, *, partial: bool = False) -> Result:
    return Result(text, partial, "The time is up." if partial else "", USAGE, ((1, 5),))


def searching(
    *texts: str | Exception, partial: bool = False
) -> tuple[list[str], Callable[[str], Result]]:
    """A search that answers so, one query after the other, and its queries."""
    queries: list[str] = []

    def search(query: str) -> Result:
        queries.append(query)
        text = texts[len(queries) - 1]
        if isinstance(text, Exception):
            raise text
        return result(text, partial=partial)

    return queries, search


def test_untyped_answer_is_the_text() -> None:
    queries, search = searching("about twenty", partial=True)
    answer = search_for_form("how many?", None, search, ())
    assert (answer, answer.value, answer.state, answer.why) == (
        "about twenty",
        "about twenty",
        "partial",
        "The time is up.",
    )
    assert (answer.usage, answer.spans) == (USAGE, ((1, 5),))
    assert queries == ["how many?"]


def test_answer_of_the_wrong_type_is_sent_back_with_the_problem() -> None:
    queries, search = searching("about twenty", "20")
    answer = search_for_form("how many?", int, search, ())
    assert (answer, answer.value, answer.state, answer.why) == ("20", 20, "answered", "")
    assert "data of this form, in JSON: an integer." in queries[0]
    assert 'the answer must be an integer, not "about twenty"' in queries[1]
    assert queries[1].startswith(queries[0])
    assert queries[1].endswith("It was:\nabout twenty")


def test_answer_is_sent_back_at_most_twice() -> None:
    queries, search = searching("a", "b", "c", "7")
    with pytest.warns(
        UserWarning,
        match='does not have the requested form: the answer must be an integer, not "c"',
    ):
        answer = search_for_form("how many?", int, search, ())
    assert (answer, answer.value, answer.state) == ("c", None, "partial")
    assert 'not "c"' in answer.why
    assert len(queries) == 3


def test_partial_answer_is_not_sent_back() -> None:
    queries, search = searching("about twenty", partial=True)
    with pytest.warns(UserWarning, match="form"):
        assert search_for_form("how many?", int, search, ()).value is None
    assert len(queries) == 1
    _, search = searching("20", partial=True)
    answer = search_for_form("how many?", int, search, ())
    assert (answer.value, answer.state, answer.why) == (20, "partial", "The time is up.")


def test_late_failure_keeps_the_answer_and_first_failure_is_raised() -> None:
    _, search = searching("about twenty", Failed("The budget is used up."))
    with pytest.warns(UserWarning, match="budget"):
        answer = search_for_form("how many?", int, search, (Failed,))
    assert (answer, answer.value) == ("about twenty", None)
    _, search = searching(Failed("no"))
    with pytest.raises(Failed):
        search_for_form("how many?", int, search, (Failed,))
    queries, search = searching()
    with pytest.raises(TypeError, match="cannot describe an answer"):
        search_for_form("how many?", len, search, (Failed,))
    assert queries == []


def test_answer_keeps_its_value_when_copied_or_pickled() -> None:
    _, search = searching("[1]")
    answer = search_for_form("which?", list[int], search, ())
    for other in (copy.deepcopy(answer), pickle.loads(pickle.dumps(answer))):
        assert (type(other), other, other.value, other.usage) == (Answer, "[1]", [1], USAGE)
