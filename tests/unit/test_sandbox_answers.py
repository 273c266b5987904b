"""Answers that code in a sandbox gives, and the places in the text on which they rest."""

from __future__ import annotations

import copy
import itertools
import json
from collections import deque
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

from mahtab_tui.worker.sandbox.names import Final, Part, make_names
from mahtab_tui.worker.sandbox.text import MOST_A_CALL, MOST_IN_ALL, ReadTracker, Source
from tests.unit.sandbox_engine import LOG, Engine, names


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (42, "42"),
        (["a", "b"], '["a", "b"]'),
        ({"é": 1}, '{"é": 1}'),
        ({(1, 2): {3}}, "{(1, 2): {3}}"),
        ({"b", "a"}, '["a", "b"]'),
        (list(range(100)), json.dumps(list(range(100)), indent=2)),
        ((n * n for n in range(4)), "[0, 1, 4, 9]"),
        (map(str, range(3)), '["0", "1", "2"]'),
        ({"a": 1}.keys(), '["a"]'),
        ({"a": 1}.items(), '[["a", 1]]'),
        (deque("ab"), '["a", "b"]'),
        (range(3), "[0, 1, 2]"),
        (
            [[n, {"to": n}] for n in range(10)],
            "[\n" + ",\n".join(f'  [{n}, {{"to": {n}}}]' for n in range(10)) + "\n]",
        ),
        (
            {"a": ["x" * 100, "y" * 30], 2: 1},
            f'{{\n  "a": [\n    "{"x" * 100}",\n    "{"y" * 30}"\n  ],\n  "2": 1\n}}',
        ),
        (ip_network("10.0.0.0/8"), "10.0.0.0/8"),
    ],
)
def test_final_accepts_any_value_and_ends_the_search(value: object, text: str) -> None:
    engine = Engine()
    with pytest.raises(Final):
        names(engine=engine)["FINAL"](value)
    assert engine.notifications == [("final", {"text": text, "spans": []})]
    assert not issubclass(Final, Exception)


def test_answer_length_is_limited_and_endless_generators_are_allowed() -> None:
    engine = Engine()
    there: dict[str, Any] = make_names(LOG, "str", (), engine, 100)
    with pytest.raises(ValueError, match="the answer has 101 characters, and 100 is the most"):
        there["FINAL"]("x" * 101)
    with pytest.raises(ValueError, match="more than 100 items"):
        there["FINAL"](itertools.count())
    with pytest.raises(Final):
        there["FINAL"]("x" * 100)


def test_answer_cites_the_text_pieces_in_it() -> None:
    def spans(value: Callable[[dict[str, Any]], object]) -> Any:
        engine = Engine()
        there = names(LOG * 2, engine)
        with pytest.raises(Final):
            there["FINAL"](value(there))
        return engine.notifications[-1][1]["spans"]

    twice = len(LOG)
    assert spans(lambda there: there["peek"](10)) == [[0, 10]]
    assert spans(lambda there: [{"line": there["context"][twice + 5 : twice + 20]}]) == [
        [twice + 5, twice + 20]
    ]
    assert spans(lambda there: there["context"][-30:][5:-5]) == [[2 * twice - 25, 2 * twice - 5]]
    assert spans(lambda there: LOG[200:300]) == [], "it is there twice"
    assert spans(lambda there: LOG[-20:] + LOG[:19]) == [[twice - 20, twice + 19]]
    hits = names(LOG * 2)["grep"]("ERROR")
    assert spans(lambda there: there["grep"]("ERROR")[::-1]) == [
        [hit.start, hit.end] for hit in hits
    ]
    assert spans(lambda there: {"first": hits[0], "n": 3}) == [[hits[0].start, hits[0].end]]
    assert spans(lambda there: (hit for hit in hits)) == [[hit.start, hit.end] for hit in hits]
    quoted = spans(lambda there: f"I read: {there['grep']('request id=r1 ')[0]}")
    assert quoted == [], "both lines were returned, and it is unknown which one is quoted"


def test_answer_cites_the_lines_it_quotes_or_names() -> None:
    def lines(answer: Callable[[dict[str, Any]], object], text: str = LOG) -> list[str]:
        engine = Engine()
        there = names(text, engine)
        with pytest.raises(Final):
            there["FINAL"](answer(there))
        return [text[slice(*span)] for span in engine.notifications[-1][1]["spans"]]

    every = LOG.split("\n")
    assert lines(lambda there: f"The second is: {there['grep']('ERROR')[1]}!") == [every[13]]
    assert lines(lambda there: {"why": f"see {there['peek'](30, 100)}"}) == [LOG[100:130]]
    assert lines(lambda there: "It is in line 3, and in lines 10, 12 and 20.") == [
        every[2],
        every[9],
        every[11],
        every[19],
    ]
    assert lines(lambda there: "r7 (line 8)\nr8 (line 9)") == [every[7], every[8]]
    assert lines(lambda there: "line 0, line 200 and line 201, line 999999999") == [every[199]]
    assert lines(lambda there: "online 3 baseline") == []
    assert lines(lambda there: "There are, in all lines 60, no errors; in total, lines: 200.") == []
    assert lines(lambda there: "line 1, line 2, line 3", "a\nb") == ["a", "b"]
    assert lines(lambda there: f"- {every[4]}\n* {every[6]}") == [every[4], every[6]]
    assert lines(lambda there: "They are \"id=r17 took\" and `r105 took 105`, not 'id=r300'.") == [
        "id=r17 took",
        "r105 took 105",
    ]
    assert lines(lambda there: "r199") == ["r199"]
    assert lines(lambda there: "r19") == [], "too short"
    assert lines(lambda there: "request", "a request, requests") == [], "it is there twice"
    assert lines(lambda there: "quest", "a request") == [], "it is a part of a word"


@pytest.mark.parametrize(
    ("hits", "spans"),
    [(slice(-1, None), [[96, 119]]), (-1, [[96, 119]]), (slice(1, 3), [[24, 47], [48, 71]])],
    ids=str,
)
def test_hit_is_cited_where_it_was_found_in_repeated_text(
    hits: Any, spans: list[list[int]]
) -> None:
    engine = Engine()
    there = names("same words in each line\n" * 5, engine)
    with pytest.raises(Final):
        there["FINAL"](there["grep"]("same")[hits])
    assert engine.notifications[-1][1]["spans"] == spans


def test_line_numbers_are_meaningless_among_documents() -> None:
    engine = Engine()
    there: dict[str, Any] = make_names("one\ntwo\n", "list", (("a", 0, 4), ("b", 4, 8)), engine)
    with pytest.raises(Final):
        there["FINAL"]("line 1")
    assert engine.notifications == [("final", {"text": "line 1", "spans": []})]


def test_reads_are_reported_in_bounded_messages() -> None:
    engine = Engine()
    there = names("\n".join("ab" * (n % 2) for n in range(6_000)), engine)
    there["peek"](10, 5)
    assert engine.notifications == [("touch", {"how": "peek", "spans": [[5, 15]]})]
    there["grep"]("a", max_matches=None)
    assert [len(args["spans"]) for _, args in engine.notifications[1:]] == [MOST_A_CALL] * 3
    for _ in range(MOST_IN_ALL):
        there["peek"](5)
    assert sum(len(args["spans"]) for _, args in engine.notifications) == MOST_IN_ALL


def test_slices_of_the_text_count_as_read() -> None:
    def seen(look: Callable[[Any], object], kind: str = "str", parts: Any = ()) -> list[list[int]]:
        engine = Engine()
        touches = ReadTracker(engine)
        there: dict[str, Any] = make_names(LOG, kind, parts, engine, touches=touches)
        look(there["context"])
        touches.flush()
        assert {args["how"] for _, args in engine.notifications} <= {"peek"}
        return [span for _, args in engine.notifications for span in args["spans"]]

    assert seen(lambda context: context[5:50] + context[50:60]) == [[5, 60]]
    assert seen(lambda context: [context[700:705], context[-5:]]) == [
        [700, 705],
        [len(LOG) - 5, len(LOG)],
    ]
    assert (
        seen(lambda context: (len(context), context.find("ERROR"), context[5], context[::-1])) == []
    )
    assert seen(lambda context: context[1][1:3], "list", (("a", 0, 50), ("b", 50, 90))) == [
        [51, 53]
    ]
    assert seen(lambda context: copy.copy(context)[3:9]) == [], "a copy reports nothing"


def test_loop_over_a_million_slices_sends_little() -> None:
    engine = Engine()
    touches = ReadTracker(engine)
    context = Source.make("x" * 400_000, touches)
    for offset in range(0, 400_000, 4):
        context[offset : offset + 1]
    touches.flush()
    assert sum(len(args["spans"]) for _, args in engine.notifications) == MOST_IN_ALL
    assert len(engine.notifications) < 50


def test_text_part_survives_copying() -> None:
    part = names()["partition"](3)[1]
    copied = copy.deepcopy([part])[0]
    assert (copied, copied.start, copied.end, copied.line) == (
        part,
        part.start,
        part.end,
        part.line,
    )
    assert isinstance(part[:5], Part) is False
    assert {name for name in vars(Part) if hasattr(str, name)} == {
        "__doc__",
        "__module__",
        "__new__",
    }
