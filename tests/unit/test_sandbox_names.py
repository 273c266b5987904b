"""The names that code in a sandbox finds, and the answers that it gives."""

from __future__ import annotations

import copy
import itertools
import json
import pydoc
import re
from collections import deque
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mahtab_tui.worker.sandbox.names import FUNCTIONS, make_names
from mahtab_tui.worker.sandbox.text import (
    Final,
    Part,
)
from tests.unit.sandbox_engine import LOG, Engine, names

LINES = st.lists(st.text(alphabet="ab \t.éx", max_size=8), max_size=12).map("\n".join)


def test_context_variable_is_the_text_or_its_documents() -> None:
    assert names("abc")["context"] == "abc"
    parts = (("a.txt", 0, 4), ("b.txt", 5, 9))
    listed: Any = make_names("one\n\ntwo\n", "list", parts, Engine())["context"]
    assert listed == ["one\n", "two\n"]
    assert [(part.start, part.end, part.line) for part in listed] == [(0, 4, 1), (5, 9, 3)]
    assert make_names("one\n\ntwo\n", "dict", parts, Engine())["context"] == {
        "a.txt": "one\n",
        "b.txt": "two\n",
    }


@given(LINES, st.integers(-30, 120), st.integers(-150, 150))
def test_peek_returns_a_slice_with_its_offset(text: str, n: int, start: int) -> None:
    part = names(text)["peek"](n, start)
    begin = len(text[:start]) if start >= 0 else max(0, len(text) + start)
    assert part == text[begin : begin + max(0, n)]
    assert text[part.start : part.end] == part
    assert part.line == text.count("\n", 0, part.start) + 1


@given(LINES, st.integers(1, 20))
@example("x" * 50_000, 4)
@example("word " * 10_000 + "\nend", 7)
def test_joined_partition_equals_the_text(text: str, n: int) -> None:
    parts = names(text)["partition"](n)
    assert "".join(parts) == text
    assert len(parts) <= n
    assert all(text[part.start : part.end] == part for part in parts)
    assert all(part.line == text.count("\n", 0, part.start) + 1 for part in parts)


def test_single_line_text_is_split_inside_the_line() -> None:
    assert [len(part) for part in names("x" * 50_000)["partition"](5)] == [10_000] * 5
    assert all(part.endswith(" ") for part in names("word " * 10_000 + "end")["partition"](5)[:-1])


PATTERNS = [
    "a", "ab", "^a", "a$", "^$", "^", "$", "", ".", ".*a", "^.*a.*", ".*?x", "a|b$", ".*a|x", "[^a]", "[^a]$", r"\s", r"a\s", r"\sa", r"\S+\s+\S",
    r"\W", r"\bа?a\b", r"\B", r"(?i)A", "(?i).*B", r"a(?!\s)", r"(?<!\s)a", r"(?<=a)b", r"(?=a)", r"\Aa", r"a\Z", r"(a)\1", "(?:ab)+", "(?x) a  b # c",
    r"[\s.]", r"[^\S]x", r"(?P<one>a)(?P=one)", "é", r"a{2}", "x?", r"(?:)", r"[ -~]+$", r"\x61", "(?-m:^a)", "(?-m:a$)",
]  # fmt: skip


def naive(text: str, pattern: str) -> list[tuple[int, str]]:
    """Lines with their numbers, a line at a time. A line end at the very end begins no line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [
        (number, line)
        for number, line in enumerate(lines, 1)
        if re.search(pattern, line, re.MULTILINE)
    ]


@given(LINES, st.sampled_from(PATTERNS))
@example("a\n", "^$")
@example("\n", "^$")
@example("b\n\na", ".*")
def test_grep_matches_a_line_by_line_search(text: str, pattern: str) -> None:
    found = names(text)["grep"](pattern, max_matches=None)
    assert [(part.line, str(part)) for part in found] == naive(text, pattern)
    assert all(text[part.start : part.end] == part for part in found)


@given(LINES, st.sampled_from(["a", r"\s", "^$", "x|b"]), st.integers(1, 4))
def test_match_context_consists_of_whole_lines(text: str, pattern: str, around: int) -> None:
    found = names(text)["grep"](pattern, around, max_matches=None)
    lines = text.removesuffix("\n").split("\n")
    wanted = {
        at
        for number, _ in naive(text, pattern)
        for at in range(max(1, number - around), min(len(lines), number + around) + 1)
    }
    given = [part.line + at for part in found for at in range(part.count("\n") + 1)]
    assert given == sorted(wanted)
    assert all(text[part.start : part.end] == part for part in found)


def test_pattern_with_line_ends_matches_across_lines() -> None:
    grep = names("x\nTraceback:\n  at f\nError: y\nz\n")["grep"]
    assert grep(r"Traceback[\s\S]*?Error") == ["Traceback:\n  at f\nError: y"]
    assert grep("f\nError") == grep(r"f\nError") == ["  at f\nError: y"]
    assert grep(re.compile("Trace.*Err", re.DOTALL)) == ["Traceback:\n  at f\nError: y"]
    assert grep(r"\n") == ["x", "Traceback:", "  at f", "Error: y", "z"]
    assert grep(r"Error[^\n]*") == ["Error: y"]


def test_matches_in_a_long_line_show_their_surroundings() -> None:
    line = "x" * 20_000 + "<one>" + "y" * 20_000 + "<two>" + "z" * 100 + "<three>" + "w" * 20_000
    text = f"<short>\n{line}\n<last>\n"
    found = names(text)["grep"]("<[a-z]+>", 1)
    assert found == [
        "<short>",
        "x" * 300 + "<one>" + "y" * 300,
        "y" * 300 + "<two>" + "z" * 100 + "<three>" + "w" * 300,
        "<last>",
    ]
    assert [part.line for part in found] == [1, 2, 2, 3]
    assert all(text[part.start : part.end] == part for part in found)
    assert names(line)["grep"]("^x") == ["x" * 301]
    assert names(line)["grep"]("w$") == ["w" * 301]


def test_grep_reports_when_it_stops(capsys: pytest.CaptureFixture[str]) -> None:
    grep = names()["grep"]
    assert len(grep("INFO")) == 100
    assert "stopped at max_matches=100" in capsys.readouterr().out
    assert len(grep("ERROR", max_matches=20)) == 20
    assert len(grep("INFO", max_matches=None)) == 180
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("grep('(')", ValueError, r"'\(' is not a regular expression: .* re.escape"),
        ("grep(3)", TypeError, "must be a str .* not int"),
        ("grep(b'x')", TypeError, "not bytes"),
        ("grep('x', text=5)", TypeError, "grep: text must be a str, not int"),
        ("grep('x', re.I)", TypeError, "(?i)"),
        ("grep('x', max_matches='all')", TypeError, "max_matches must be a whole number, not str"),
        (
            "grep('x', flags=2)",
            TypeError,
            r"grep: got an unexpected keyword argument 'flags'. Call it as grep\(pattern, context_lines, max_matches, text\)",
        ),
        (
            "peek(1, 2, 3)",
            TypeError,
            r"peek: too many positional arguments. Call it as peek\(n, start, text\)",
        ),
        ("peek(1.5)", TypeError, "n must be a whole number, not float"),
        ("partition(0)", ValueError, "n must be at least 1, not 0"),
        ("partition(2.5)", TypeError, "whole number"),
        ("rlm('q')", TypeError, "rlm: missing a required argument: 'subset'"),
        ("rlm('q', None)", TypeError, "rlm reads a text: .* not None"),
        ("rlm('q', (x for x in 'ab'))", TypeError, "not generator"),
        ("rlm('q', len)", TypeError, "not builtin_function_or_method"),
        ("rlm(' ', 'x')", ValueError, "query is empty"),
        ("rlm(['q'], 'x')", TypeError, "query must be the question, a str, not list"),
        ("rlm_map('q', context)", TypeError, "rlm_map takes several texts"),
        ("rlm_map('q', 5)", TypeError, "subsets must be a list of strings, not int"),
        ("rlm_map(partition(2), 'q')", TypeError, "query must be"),
        ("rlm_map('q', [None])", TypeError, "not None"),
        ("llm_map('q', 'abc')", TypeError, r"llm_map takes several texts.* use llm\(query, text\)"),
        ("llm_map(['a', 'b'])", TypeError, r"pairs of them: llm_map\(\[\(query, a\)"),
        ("llm_map([('', 'b')])", ValueError, "llm_map: query is empty"),
        ("llm_map(7)", TypeError, "llm_map: the argument must be a list of strings, not int"),
        ("FINAL([])", ValueError, r"FINAL got \[\], which is no answer"),
        ("FINAL(None)", ValueError, "FINAL got None, which is no answer"),
        ("FINAL()", TypeError, "FINAL: missing a required argument: 'answer'"),
        ("FINAL('x' * 40_001)", ValueError, "40,001 characters.*call FINAL again"),
    ],
)
def test_wrong_calls_give_one_sentence(code: str, kind: type[Exception], message: str) -> None:
    engine = Engine()
    with pytest.raises(kind, match=re.escape(message) if message.startswith("(?") else message):
        eval(code, {**names(engine=engine), "re": re})
    assert engine.notifications == []
    assert engine.calls == []


def test_an_empty_answer_is_accepted_the_second_time() -> None:
    functions = names(engine=(engine := Engine()))
    with pytest.raises(ValueError, match="which is no answer"):
        functions["FINAL"]([])
    with pytest.raises(Final):
        functions["FINAL"]([])
    assert engine.notifications[-1][1]["text"] == "[]"


@pytest.mark.parametrize(
    "call",
    [
        "grep('b.', other)",
        "grep(other, 'b.')",
        "grep('b.', text=other)",
        "grep('b.', other.split('\\n'))",
        "grep(other, 'b.', 0, 5)",
        "grep('b.', text=other, max_matches=5)",
    ],
)
def test_grep_searches_another_text_in_either_order(call: str) -> None:
    hits = eval(call, {**names(), "other": "one\nbe two\nthree\nby four\n"})
    assert hits == ["be two", "by four"]
    assert [(hit.line, hit.start, hit.end, hit.text) for hit in hits] == [
        (2, 4, 10, "be two"),
        (4, 17, 24, "by four"),
    ]


def test_peek_and_partition_read_another_text_in_either_order() -> None:
    functions, other = names(), "".join(f"line {number}\n" for number in range(100))
    for call in ("peek(other, 20, 7)", "peek(20, other, start=7)", "peek(20, 7, text=other)"):
        assert eval(call, {**functions, "other": other}) == other[7:27]
    for call in ("partition(other, 4)", "partition(4, other)", "partition(4, text=other)"):
        parts = eval(call, {**functions, "other": other})
        assert len(parts) == 4
        assert "".join(parts) == other


def test_a_part_of_the_text_has_a_position_and_another_text_has_none() -> None:
    engine = Engine()
    functions = names("a\nbee\nc\nbee two\n", engine=engine)
    assert [
        (hit.line, hit.start) for hit in functions["grep"]("bee", functions["context"][6:])
    ] == [(4, 8)]
    engine.calls.clear()
    functions["llm_map"]("q", functions["grep"]("bee", "x\nbee three is long\n"))
    assert engine.calls[-1][1]["parts"] == [{"text": "bee three is long"}]


def test_sub_calls_send_offsets_where_possible() -> None:
    engine = Engine()
    there = names(engine=engine)
    long = LOG[100:300]
    there["rlm"]("what?", there["partition"](4)[1])
    there["rlm"]("what?", long)
    there["rlm"]("what?", LOG)
    there["rlm"]("what?", long[:63])
    there["rlm"]("what?", "not in there " * 10)
    there["rlm"]("what?", ["a\n", "b"])
    there["rlm"]("what?", there["partition"](4)[:2])
    there["rlm"]("what?", [*there["partition"](4), "a"])
    there["rlm"]("what?", {"é": [1, None]})
    there["rlm"]("what?", 3.5)
    part = there["partition"](4)[1]
    assert [call[1]["parts"] for call in engine.calls] == [
        [{"span": [part.start, part.end]}],
        [{"span": [100, 300]}],
        [{"span": [0, len(LOG)]}],
        [{"text": long[:63]}],
        [{"text": "not in there " * 10}],
        [{"text": "a\nb"}],
        [{"spans": [[one.start, one.end - 1] for one in there["partition"](4)[:2]]}],
        [{"text": f"{LOG}a"}],
        [{"text": '{"é": [1, null]}'}],
        [{"text": "3.5"}],
    ]
    assert all(
        call == ("rlm", {**call[1], "query": "what?", "map": False}) for call in engine.calls
    )


def test_rlm_map_keeps_order_and_marks_failures() -> None:
    engine = Engine(lambda part: {"text": part["text"], "failed": part["text"] == "b"})
    there = names(engine=engine)
    answers = there["rlm_map"]("q", (text for text in ("a", "b", "c")))
    assert answers == ["a", "[failed: b]", "c"]
    assert [answer.failed for answer in answers] == [False, True, False]
    assert there["rlm_map"]("q", {"one": "x", "two": "y"}) == ["x", "y"]
    assert there["rlm_map"]("q", []) == []
    assert [(name, args["map"]) for name, args in engine.calls] == [("rlm", True)] * 2


def test_llm_map_asks_one_query_or_one_for_each_text() -> None:
    engine = Engine(
        lambda part: {"text": part.get("text", "span"), "failed": part.get("text") == "b"}
    )
    there = names(engine=engine)
    answers = there["llm_map"]("q", (text for text in ("a", "b", "c")))
    assert answers == ["a", "[failed: b]", "c"]
    assert [answer.failed for answer in answers] == [False, True, False]
    assert there["llm_map"](iter([("first?", there["peek"](10)), ["second?", "x"]])) == [
        "span",
        "x",
    ]
    assert there["llm_map"]({"one": ("third?", "y")}) == ["y"]
    assert there["llm_map"]([]) == there["llm_map"]("q", []) == []
    one = {"query": "q", "parts": [{"text": "a"}, {"text": "b"}, {"text": "c"}], "map": True}
    two = {"query": ["first?", "second?"], "parts": [{"span": [0, 10]}, {"text": "x"}], "map": True}
    assert engine.calls == [
        ("llm_map", one),
        ("llm_map", two),
        ("llm_map", {"query": ["third?"], "parts": [{"text": "y"}], "map": True}),
    ]


def test_names_used_by_other_programs_work() -> None:
    engine = Engine(lambda part: {"text": "read", "failed": False})
    there = names(engine=engine)
    long = "Sum it up.\n" + "x" * 30_000
    assert (there["llm_query"]("why?"), there["rlm_query"]("why?")) == ("read", "read")
    assert there["llm_query_batched"](["why?", long]) == ["read", "read"]
    (_, plain), (_, explored), (_, both) = engine.calls
    assert (plain["query"], plain["part"]) == (explored["query"], None) == ("why?", None)
    assert both["query"][0] == "why?"
    assert "It begins: Sum it up." in both["query"][1]
    assert both["parts"] == [{"text": ""}, {"text": long}]
    for code in (
        "FINAL_VAR('found')",
        "FINAL_VAR(found)",
        "SUBMIT(found)",
        "SUBMIT(answer=found)",
        "def f():\n    held = 42\n    FINAL_VAR('held')\nf()",
    ):
        engine = Engine()
        with pytest.raises(Final):
            exec(code, {**names(engine=engine), "found": 42})
        assert engine.notifications[-1] == ("final", {"text": "42", "spans": []}), code
    for code, text in (
        ("FINAL_VAR('nothing such')", "nothing such"),
        ("SUBMIT(a=1, b=2)", '{"a": 1, "b": 2}'),
        ("SUBMIT(1, 2)", "[1, 2]"),
    ):
        with pytest.raises(Final):
            exec(code, names(engine=engine))
        assert engine.notifications[-1][1]["text"] == text
    with pytest.raises(NameError, match="there is no variable answr"):
        exec("FINAL_VAR('answr')", names())
    there = {**names("a text"), "found": 42, "_hidden": 1}
    exec("shown = SHOW_VARS()", there)
    assert there["shown"] == "Available variables: {'context': 'str', 'found': 'int'}"


def test_llm_accepts_a_query_with_or_without_text() -> None:
    engine = Engine()
    there = names(engine=engine)
    there["llm"]("hello?")
    there["llm"]("hello?", "text")
    there["llm"]("hello?", there["peek"](10))
    assert [call[1]["part"] for call in engine.calls] == [None, {"text": "text"}, {"span": [0, 10]}]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_shows_how_to_call(name: str) -> None:
    shown = pydoc.plain(pydoc.render_doc(names()[name]))
    assert f"{name}(" in shown
    assert "self" not in shown.split("\n", 4)[2]
    assert "Example: " in shown


# Answers that code in a sandbox gives, and the places in the text on which they rest.


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
            f'{{\n  "a": ["{"x" * 100}", "{"y" * 30}"],\n  "2": 1\n}}',
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
    assert lines(lambda there: "r19") == ["r19"]
    assert lines(lambda there: "r1") == [], "too short"
    assert lines(lambda there: "request", "a request, a request") == [], "it is there twice"
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
