"""Values laid out for the width of the screen."""

from __future__ import annotations

import ast
import collections
import dataclasses
import types
from typing import Any, ClassVar

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.worker.values.pretty import (
    DEFAULT_WIDTH_CELLS,
    MAX_DEPTH,
    MAX_ENTRIES,
    pretty_repr,
    screen_width,
)


@dataclasses.dataclass
class Account:
    owner: str
    balance: float
    history: list[Any] = dataclasses.field(default_factory=list)
    secret: str = dataclasses.field(default="x", repr=False)
    currency: ClassVar[str] = "EUR"


class Order(pydantic.BaseModel):
    name: str
    tags: list[str]


Point = collections.namedtuple("Point", "x y")


class Loud(dict):  # type: ignore[type-arg]
    def __repr__(self) -> str:
        return "LOUD"


SMALL: list[Any] = [
    *([], [1, 2], {}, {1: "a"}, (), (1,), set(), {1}, frozenset({1}), 1, 2.5, None, True, "text"),
    *(b"bytes", Point(1, 2), Account("Ada", 1), types.SimpleNamespace(a=1), Loud(a=1)),
    *(collections.deque([1], maxlen=3), collections.OrderedDict(a=1), collections.Counter("aab")),
    *(collections.defaultdict(int, {1: 2}), types.MappingProxyType({1: 2}), {1: 2}.keys()),
    *({1: 2}.values(), {1: 2}.items(), Order(name="n", tags=["a"]), range(3), int, object),
]


@pytest.mark.parametrize("value", SMALL, ids=repr)
def test_short_value_is_its_repr(value: object) -> None:
    assert pretty_repr(value, 80) == repr(value)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=60) | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=9), inner, max_size=6)
    ),
    max_leaves=30,
)


@given(values, st.integers(20, 120))
def test_layout_evaluates_to_the_value(value: object, width: int) -> None:
    assert ast.literal_eval(pretty_repr(value, width)) == value


def test_entries_have_a_line_each_in_their_own_order() -> None:
    value = {"b": [1, 2], "a": {"street": "Infinite Loop", "city": "Cupertino"}, "c": "x"}
    assert pretty_repr(value, 40) == (
        "{'b': [1, 2],\n 'a': {'street': 'Infinite Loop',\n       'city': 'Cupertino'},\n 'c': 'x'}"
    )


def test_numbers_share_lines() -> None:
    assert pretty_repr(list(range(12)), 20) == "[0, 1, 2, 3, 4, 5,\n 6, 7, 8, 9, 10, 11]"


def test_long_string_is_wrapped_between_words() -> None:
    assert pretty_repr({"note": "one two three four five six seven"}, 34) == (
        "{'note': 'one two three four '\n         'five six seven'}"
    )


def test_deep_values_stay_on_the_screen() -> None:
    value: Any = [{"name": "deep", "value": number} for number in range(9)]
    for key in ("first_level", "second_level", "third_level", "fourth_level"):
        value = {key: value}
    text = pretty_repr(value, 60)
    assert max(map(len, text.split("\n"))) <= 60
    assert ast.literal_eval(text) == value


@pytest.mark.parametrize(
    ("value", "first_line", "second_line"),
    [
        (Account("Ada Lovelace", 1.5, [1]), "Account(owner='Ada Lovelace',", "balance=1.5,"),
        (Order(name="n" * 30, tags=["a"]), f"Order(name='{'n' * 30}',", "tags=['a'])"),
        (types.SimpleNamespace(a="a" * 30, b=2), f"namespace(a='{'a' * 30}',", "b=2)"),
        (Point("x" * 30, 2), f"Point(x='{'x' * 30}',", "y=2)"),
    ],
)
def test_objects_are_written_by_fields(value: object, first_line: str, second_line: str) -> None:
    lines = pretty_repr(value, 36).split("\n")
    assert (lines[0], lines[1].strip()) == (first_line, second_line)


def test_many_entries_are_counted() -> None:
    text = pretty_repr(list(range(5_000_000)), 80)
    assert text.endswith(f"{MAX_ENTRIES - 1}, … {5_000_000 - MAX_ENTRIES:,} more]")
    assert pretty_repr(dict.fromkeys(range(MAX_ENTRIES + 5)), 80).endswith(" … 5 more}")


def test_cyclic_and_endless_values_end() -> None:
    cycle: list[Any] = [1]
    cycle.append(cycle)
    assert pretty_repr(cycle, 80) == repr(cycle)
    shared: list[Any] = []
    for _ in range(MAX_DEPTH + 20):
        shared = [shared, shared]
    assert len(pretty_repr(shared, 80)) < 5_000_000


def test_objects_of_any_metaclass_are_written() -> None:
    class ComparingMeta(type):
        def __eq__(cls, other: object) -> bool:  # which makes the class unhashable
            raise AssertionError

    class Compared(metaclass=ComparingMeta):
        def __repr__(self) -> str:
            return "compared"

    assert pretty_repr([Compared()], 80) == "[compared]"


def test_counts_that_cannot_be_compared_stay_in_their_order() -> None:
    counter: collections.Counter[str] = collections.Counter(a=1)
    counter["b"] = "many"  # type: ignore[assignment]
    assert pretty_repr(counter, 80) == repr(counter)


def test_escapes_count_when_a_string_is_wrapped() -> None:
    lines = pretty_repr(["word\n" * 12], 40).split("\n")
    assert len(lines) == 2
    assert max(map(len, lines)) <= 40


def test_error_of_a_repr_is_raised() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        pretty_repr([Broken()], 80)


@pytest.mark.parametrize(("columns", "width"), [("72", 72), ("", 80), ("-3", 80), ("9" * 9, 80)])
def test_width_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    assert DEFAULT_WIDTH_CELLS == 80
    monkeypatch.setenv("COLUMNS", columns)
    assert screen_width() == width
