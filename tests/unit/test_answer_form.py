"""Types of a search's answer: their description for the model, parsing, and repeated questions."""

from __future__ import annotations

import contextlib
import copy
import enum
import json
import pickle
from collections.abc import Callable, Collection, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    Union,
)
from uuid import UUID

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from mahtab_tui.worker.rlm.answer_form import WrongForm
from mahtab_tui.worker.rlm.answer_reading import read_as
from mahtab_tui.worker.rlm.answers import Answer, Result, SearchUsage, needs_code, search_for_form
from mahtab_tui.worker.rlm.form_description import describe_form
from mahtab_tui.worker.sandbox.value_text import materialize, value_text

DAY = date(2026, 3, 1)

NOON = datetime(2026, 3, 1, 12)
UTC_NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ID = UUID("12345678-1234-5678-1234-567812345678")

USAGE = SearchUsage(3, 100, 0.5, 2.0)


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Line:
    text: str
    level: Level = Level.LOW
    parts: list[Line] = field(default_factory=list)


class Invoice(BaseModel):
    id: int
    day: date
    total: float

    @field_validator("total")
    @classmethod
    def _is_paid(cls, total: float) -> float:
        if total <= 0:
            raise ValueError("nobody pays so little")
        return total


class Point(NamedTuple):
    x: int
    y: int = 0


class Person(TypedDict):
    name: str
    age: NotRequired[int]


@dataclass
class Counted:
    n: Annotated[int, Field(ge=0)]


PAID = Invoice(id=1, day=DAY, total=2)
Spam = Literal["spam", "ham"]
Number = NewType("Number", int)


@pytest.mark.parametrize(
    ("answer_type", "answer", "value"),
    [
        (int, "20", 20),
        (int, " 20.0\n", 20),
        (float, "3", 3.0),
        (bool, "True", True),
        (str, '"as it is"', '"as it is"'),
        (Any, '{"a": null}', {"a": None}),
        (list, '[1, "a"]', [1, "a"]),
        (list[int], "```json\n[1, 2]\n```", [1, 2]),
        (list[str], "['it''s', \"python\"]", ["its", "python"]),
        (set[str], '["a", "b", "a"]', {"a", "b"}),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (tuple[int, ...], "[1, 2, 3]", (1, 2, 3)),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Union[int, None], "null", None),  # noqa: UP007
        (int | None, "7", 7),
        (int | str, "seven", "seven"),
        (Line, '{"text": "a", "parts": [{"text": "b"}]}', Line("a", parts=[Line("b")])),
        (list[Invoice], '[{"id": 1, "day": "2026-03-01", "total": 2}]', [PAID]),
        # Words that name only one value.
        (int, "There are 20 of them.", 20),
        (int, "The sum of c117's orders is 1,234,567 EUR.", 1_234_567),
        (float, "About -2.5 degrees.", -2.5),
        (int, "20 lines: 20.", 20),
        (Spam, "It is Spam, clearly.", "spam"),
        (Level, "The level is low.", Level.LOW),
        # Values that code returns, and natural spellings.
        (Spam, "Spam", "spam"),
        (Spam, "'spam'.", "spam"),
        (dict[str, Spam], {"a": "Ham"}, {"a": "ham"}),
        (Literal[1, 2], 2, 2),
        (Literal[1, 2], "2", 2),
        (Literal[Level.LOW, None], "low", Level.LOW),
        (Literal["yes", True], True, True),
        (Level, "high", Level.HIGH),
        (Level, "HIGH", Level.HIGH),
        (Level | None, None, None),
        (date, "2026-03-01", DAY),
        (date, datetime(2026, 3, 1), DAY),
        (dict[date, int], {DAY: 1}, {DAY: 1}),
        (datetime, "2026-03-01T12:00:00Z", UTC_NOON),
        (datetime, DAY, datetime(2026, 3, 1)),
        (time, time(12), time(12)),
        (Optional[date], "2026-03-01", DAY),  # noqa: UP045
        (Number, 7, 7),
        (int | str, "7 or so", "7 or so"),
        (list[int | str], ["7", 7], ["7", 7]),
        (list[float], [nan, 1, inf], [nan, 1.0, inf]),
        (bool, "yes", True),
        (Decimal, Decimal("1.10"), Decimal("1.1")),
        (float, Decimal("1.5"), 1.5),
        (float, Fraction(1, 4), 0.25),
        (int, Fraction(4, 2), 2),
        (list[float], [Decimal("1.5"), Fraction(1, 2), Fraction(4, 2)], [1.5, 0.5, 2.0]),
        (dict[str, float], {"a": Fraction(1, 2)}, {"a": 0.5}),
        (bytes, b"\xff", b"\xff"),
        (bytes, "words", b"words"),
        (UUID, ID, ID),
        (dict[UUID, Path], {str(ID): "a/b"}, {ID: Path("a/b")}),
        (Path, "a/b", Path("a/b")),
        (set[int], {3, 1}, {1, 3}),
        (frozenset[str], {"a"}, frozenset("a")),
        (Collection[str], ("a", "b"), ["a", "b"]),
        (dict[tuple[int, int], str], {(1, 2): "a"}, {(1, 2): "a"}),
        (dict[Any, int], {1: 2, "1": 3}, {1: 2, "1": 3}),
        (Mapping[str, Any], {"a": DAY}, {"a": "2026-03-01"}),
        (Point, {"x": 1}, Point(1)),
        (Person, {"name": "Ann"}, {"name": "Ann"}),
        (Person, {"name": "Ann", "age": "7"}, {"name": "Ann", "age": 7}),
        (Invoice, {"id": 1, "day": DAY, "total": 2}, PAID),
        (Annotated[int, Field(ge=0)], 3, 3),
        (list[Annotated[str, "a name"]], ["a"], ["a"]),
        (Any, numpy.int64(7), 7),
        (numpy.float64, 1.5, numpy.float64(1.5)),
        (numpy.int64, "7", numpy.int64(7)),
        (None, None, None),
    ],
)
def test_answer_is_read_as_the_requested_type(
    answer_type: Any, answer: object, value: object
) -> None:
    read = read_as(answer_type, value_text(materialize(answer, 1000)))  # as FINAL does
    assert (repr(read), type(read)) == (repr(value), type(value))
    assert describe_form(answer_type)


@dataclass
class Measured:
    value: int
    scale: InitVar[int]
    unit: ClassVar[str] = "m"


def test_fields_of_a_dataclass_are_those_that_its_objects_have() -> None:
    assert value_text(Measured(3, scale=2)) == '{"value": 3}'


def test_no_entry_is_lost_if_keys_are_alike_in_json() -> None:
    assert value_text({Path("a"): 1, "a": 2}) == f"{{{Path('a')!r}: 1, 'a': 2}}"


@pytest.mark.parametrize(
    ("answer_type", "text", "message"),
    [
        (int, "There are 20 or 30.", 'the answer must be an integer, not "There are 20 or 30."'),
        (int, "c117", "must be an integer"),
        (int, "1.2.3", "must be an integer"),
        (Spam, "spam or ham", 'must be "spam" or "ham"'),
        (int, "true", "must be an integer, not true"),
        (int, "True", "must be an integer"),
        (Annotated[int, Field(ge=0)], "-3", "greater than or equal to 0"),
        (int, "2.5", "must be an integer, not 2.5"),
        (list[int], '[1, "a"]', r"the answer\[1\] must be an integer"),
        (list[int], "7", r"must be \[an integer, ...\], not 7"),
        (tuple[int, str], "[1]", r"must be \[an integer, a string\]"),
        (set[Any], "[[1]]", r"must be \[any JSON, ...\]"),
        (dict[int, int], '{"a": 1}', "a key must be an integer"),
        (dict[str, int], '{"a": "b"}', r"the answer\['a'\] must be an integer"),
        (int | None, '"a"', "must be an integer or null"),
        (Literal[1, 2], "true", "must be 1 or 2"),
        (Level, '"middling"', 'must be "low" or "high"'),
        (date, '"soon"', "must be a date such as"),
        (Line, '{"level": "low", "size": 3}', "'text' is missing; there is no 'size'"),
        (Line, '{"text": "a", "parts": [{"text": 5}]}', r"parts\[0\].text must be a string, not 5"),
        (Invoice, '{"id": 1, "day": "2026-03-01", "total": 0}', "nobody pays so little"),
        (Invoice, '{"id": 1}', r"(?s)the answer: .*day.*Field required"),
        (list, "[" * 100_000, r'not "\[\[\['),
        (list[int], "{[1]}", r'not "{\[1\]}"'),
        (dict[str, int], "{{}: 1}", 'not "{{}: 1}"'),
        (Line, '{"text": "", "parts": [' * 300 + "]}" * 300, "the answer is nested too deeply"),
        (int, "9" * 10_000, 'an integer, not "999'),
        (Literal["spam", "Spam"], "SPAM", 'must be "spam" or "Spam", not "SPAM"'),
        (Point, "[]", "'x' is missing"),
        (Counted, '{"n": -1}', "greater than or equal to 0"),
    ],
)
def test_wrong_answer_error_names_the_problem(answer_type: Any, text: str, message: str) -> None:
    with pytest.raises(WrongForm, match=message):
        read_as(answer_type, text)


def test_types_are_described_for_the_model() -> None:
    assert describe_form(list[tuple[str, int]]) == "[[a string, an integer], ...]"
    level = '"level": "low" or "high" (or left out)'
    parts_form = '"parts": [another Line, ...] (or left out)'
    assert describe_form(Line) == f'{{"text": a string, {level}, {parts_form}}}'
    assert json.dumps(Invoice.model_json_schema()) in describe_form(list[Invoice])


@pytest.mark.parametrize(
    "answer_type", [len, object(), "int", [int], {"a": int}, memoryview, type("Own", (), {})]
)
def test_unsupported_type_is_refused(answer_type: Any) -> None:
    with pytest.raises(TypeError, match="cannot describe an answer"):
        describe_form(answer_type)


def test_value_is_sanitized_unless_requested_raw() -> None:
    text = json.dumps({"a\x1b[2J": ["b\x07\u202ec\n"]})
    assert read_as(dict[str, list[str]], text) == {"a[2J": ["bc\n"]}
    assert read_as(dict[str, list[str]], text, raw=True) == {"a\x1b[2J": ["b\x07\u202ec\n"]}


@given(
    st.text(alphabet='[]{}",:1ae.\\ \n', max_size=60),
    st.sampled_from([int, list[int], dict[str, Any], Line, Invoice, int | str, set[Any]]),
)
def test_any_text_is_parsed_or_refused(text: str, answer_type: Any) -> None:
    with contextlib.suppress(WrongForm):
        read_as(answer_type, text)


class Failed(Exception): ...


def searching(
    *texts: str | Exception, partial: bool = False
) -> tuple[list[str], Callable[[str], Result]]:
    """Return a search that gives these answers in turn, and the list of its queries."""
    queries: list[str] = []

    def search(query: str) -> Result:
        queries.append(query)
        text = texts[len(queries) - 1]
        if isinstance(text, Exception):
            raise text
        return Result(text, partial, "The time is up." if partial else "", USAGE, ((1, 5),))

    return queries, search


def test_wrong_answer_is_sent_back() -> None:
    queries, search = searching("about twenty", "20")
    answer = search_for_form("how many?", int, search, ())
    assert (answer, answer.value, answer.state, answer.why) == ("20", 20, "answered", "")
    assert "data of this form, in JSON: an integer." in queries[0]
    assert 'the answer must be an integer, not "about twenty"' in queries[1]
    assert queries[1].startswith(queries[0])
    assert queries[1].endswith("It was:\nabout twenty")


def test_answer_is_sent_back_at_most_twice() -> None:
    queries, search = searching("a", "b", "c", "7")
    problem = 'the answer must be an integer, not "c"'
    with pytest.warns(UserWarning, match=f"does not have the requested form: {problem}"):
        answer = search_for_form("how many?", int, search, ())
    assert (answer, answer.value, answer.state) == ("c", None, "partial")
    assert 'not "c"' in answer.why
    assert len(queries) == 3


def test_partial_answer_is_not_sent_back() -> None:
    _, search = searching("about twenty", partial=True)
    answer = search_for_form("how many?", None, search, ())
    assert answer == answer.value == "about twenty"
    assert (answer.usage, answer.spans) == (USAGE, ((1, 5),))
    queries, search = searching("about twenty", partial=True)
    with pytest.warns(UserWarning, match="form"):
        assert search_for_form("how many?", int, search, ()).value is None
    assert len(queries) == 1
    _, search = searching("20", partial=True)
    answer = search_for_form("how many?", int, search, ())
    assert (answer.value, answer.state, answer.why) == (20, "partial", "The time is up.")


def test_late_failure_keeps_the_first_answer() -> None:
    _, search = searching("about twenty", Failed("The budget is used up."))
    with pytest.warns(UserWarning, match="budget"):
        answer = search_for_form("how many?", int, search, (Failed,))
    assert (answer, answer.value) == ("about twenty", None)
    with pytest.raises(Failed):
        search_for_form("how many?", int, searching(Failed("no"))[1], (Failed,))
    queries, search = searching()
    with pytest.raises(TypeError, match="cannot describe an answer"):
        search_for_form("how many?", len, search, (Failed,))
    assert queries == []


def test_copied_answer_keeps_its_value() -> None:
    _, search = searching("[1]")
    answer = search_for_form("which?", list[int], search, ())
    for copied_answer in (copy.deepcopy(answer), pickle.loads(pickle.dumps(answer))):
        assert (type(copied_answer), copied_answer, copied_answer.value, copied_answer.usage) == (
            Answer,
            "[1]",
            [1],
            USAGE,
        )


def test_exact_queries_and_tools_need_code() -> None:
    assert needs_code("How many errors are there?", None, ())
    assert needs_code("Which is the largest?", None, ())
    assert needs_code("Who?", list[str], ())
    assert needs_code("Who?", None, [print])
    assert not needs_code("Who has signed?", str, ())
    assert not needs_code("Is it spam?", Literal["spam", "ham"], ())
