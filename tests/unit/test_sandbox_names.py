"""The names that code in a sandbox finds, and the answers that it gives."""

from __future__ import annotations

import copy
import itertools
import json
import pydoc
import re
import threading
from collections import deque
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mahtab_tui.worker.sandbox.engine import Final
from mahtab_tui.worker.sandbox.evidence import EvidenceFinder
from mahtab_tui.worker.sandbox.functions import FUNCTIONS
from mahtab_tui.worker.sandbox.pieces import Part
from tests.unit.sandbox_engine import LOG, Engine, names

LINES = st.lists(st.text(alphabet="ab \t.éx", max_size=8), max_size=12).map("\n".join)

PATTERNS = [
    "a", "ab", "^a", "a$", "^$", "^", "$", "", ".", ".*a", "^.*a.*", ".*?x", "a|b$", ".*a|x", "[^a]", "[^a]$", r"\s", r"a\s", r"\sa", r"\S+\s+\S",
    r"\W", r"\bа?a\b", r"\B", r"(?i)A", "(?i).*B", r"a(?!\s)", r"(?<!\s)a", r"(?<=a)b", r"(?=a)", r"\Aa", r"a\Z", r"(a)\1", "(?:ab)+", "(?x) a  b # c",
    r"[\s.]", r"[^\S]x", r"(?P<one>a)(?P=one)", "é", r"a{2}", "x?", r"(?:)", r"[ -~]+$", r"\x61", "(?-m:^a)", "(?-m:a$)",
]  # fmt: skip


def check_positions(text: str, pieces: list[Any]) -> None:
    for piece in pieces:
        assert text[piece.start : piece.end] == piece
        assert piece.line == text.count("\n", 0, piece.start) + 1


def test_context_variable_is_the_text_or_its_documents() -> None:
    assert names("abc")["context"] == "abc"
    parts = (("a.txt", 0, 4), ("b.txt", 5, 9))
    listed = names("one\n\ntwo\n", kind="list", parts=parts)["context"]
    assert listed == ["one\n", "two\n"]
    assert [(part.start, part.end, part.line) for part in listed] == [(0, 4, 1), (5, 9, 3)]
    named = names("one\n\ntwo\n", kind="dict", parts=parts)["context"]
    assert named == {"a.txt": "one\n", "b.txt": "two\n"}


@given(LINES, st.integers(-30, 120), st.integers(-150, 150))
def test_peek_returns_a_slice_with_its_offset(text: str, n: int, start: int) -> None:
    piece = names(text)["peek"](n, start)
    begin = len(text[:start]) if start >= 0 else max(0, len(text) + start)
    assert piece == text[begin : begin + max(0, n)]
    check_positions(text, [piece])


@given(LINES, st.integers(1, 20))
@example("x" * 50_000, 4)
@example("word " * 10_000 + "\nend", 7)
def test_joined_partition_equals_the_text(text: str, n: int) -> None:
    parts = names(text)["partition"](n)
    assert "".join(parts) == text
    assert len(parts) <= n
    check_positions(text, parts)


def test_single_line_text_is_split_inside_the_line() -> None:
    assert [len(part) for part in names("x" * 50_000)["partition"](5)] == [10_000] * 5
    assert all(part.endswith(" ") for part in names("word " * 10_000 + "end")["partition"](5)[:-1])


def naive(text: str, pattern: str) -> list[tuple[int, str]]:
    """Search line by line. A line end at the very end begins no line."""
    lines = enumerate(text.removesuffix("\n").split("\n") if text else (), 1)
    return [(number, line) for number, line in lines if re.search(pattern, line, re.MULTILINE)]


@given(LINES, st.sampled_from(PATTERNS))
@example("a\n", "^$")
@example("\n", "^$")
@example("b\n\na", ".*")
def test_grep_matches_a_line_by_line_search(text: str, pattern: str) -> None:
    hits = names(text)["grep"](pattern, max_matches=None)
    assert [(hit.line, str(hit)) for hit in hits] == naive(text, pattern)
    check_positions(text, hits)


@given(LINES, st.sampled_from(["a", r"\s", "^$", "x|b"]), st.integers(1, 4))
def test_match_context_consists_of_whole_lines(text: str, pattern: str, around: int) -> None:
    hits = names(text)["grep"](pattern, around, max_matches=None)
    lines = text.removesuffix("\n").split("\n")
    expected_lines = {
        at
        for number, _ in naive(text, pattern)
        for at in range(max(1, number - around), min(len(lines), number + around) + 1)
    }
    hit_lines = [hit.line + at for hit in hits for at in range(hit.count("\n") + 1)]
    assert hit_lines == sorted(expected_lines)
    check_positions(text, hits)


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
    hits = names(text)["grep"]("<[a-z]+>", 1)
    assert hits == [
        "<short>",
        "x" * 300 + "<one>" + "y" * 300,
        "y" * 300 + "<two>" + "z" * 100 + "<three>" + "w" * 300,
        "<last>",
    ]
    assert [hit.line for hit in hits] == [1, 2, 2, 3]
    check_positions(text, hits)
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
        ("grep('x', flags=2)", TypeError, "grep: got an unexpected keyword argument 'flags'"),
        ("grep()", TypeError, r"Call it as grep\(pattern, context_lines, max_matches, text\)"),
        ("peek(1, 2, 3)", TypeError, r"too many .* arguments. Call it as peek\(n, start, text\)"),
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
    hit_fields = [(hit.line, hit.start, hit.end, hit.text) for hit in hits]
    assert hit_fields == [(2, 4, 10, "be two"), (4, 17, 24, "by four")]
    assert hits == ["be two", "by four"]


def test_peek_and_partition_read_another_text_in_either_order() -> None:
    functions = names()
    other_text = "".join(f"line {number}\n" for number in range(100))
    for call in ("peek(other, 20, 7)", "peek(20, other, start=7)", "peek(20, 7, text=other)"):
        assert eval(call, {**functions, "other": other_text}) == other_text[7:27]
    for call in ("partition(other, 4)", "partition(4, other)", "partition(4, text=other)"):
        parts = eval(call, {**functions, "other": other_text})
        assert len(parts) == 4
        assert "".join(parts) == other_text


def test_a_part_of_the_text_has_a_position_and_another_text_has_none() -> None:
    engine = Engine()
    functions = names("a\nbee\nc\nbee two\n", engine=engine)
    (hit,) = functions["grep"]("bee", functions["context"][6:])
    assert (hit.line, hit.start) == (4, 8)
    functions["llm_map"]("q", functions["grep"]("bee", "x\nbee three is long\n"))
    assert engine.calls[-1][1]["parts"] == [{"text": "bee three is long"}]


def test_sub_calls_send_offsets_where_possible() -> None:
    functions = names(engine=(engine := Engine()))
    parts = functions["partition"](4)
    unknown = "not in there " * 10
    for subset, sent in (
        (parts[1], {"span": [parts[1].start, parts[1].end]}),
        (LOG[100:300], {"span": [100, 300]}),
        (LOG, {"span": [0, len(LOG)]}),
        (LOG[100:163], {"text": LOG[100:163]}),
        (unknown, {"text": unknown}),
        (["a\n", "b"], {"text": "a\nb"}),
        (parts[:2], {"spans": [[part.start, part.end - 1] for part in parts[:2]]}),
        ([*parts, "a"], {"text": f"{LOG}a"}),
        ({"é": [1, None]}, {"text": '{"é": [1, null]}'}),
        (3.5, {"text": "3.5"}),
    ):
        functions["rlm"]("what?", subset)
        assert engine.calls[-1] == ("rlm", {"query": "what?", "parts": [sent], "map": False})


def test_rlm_map_keeps_order_and_marks_failures() -> None:
    engine = Engine(lambda part: {"text": part["text"], "failed": part["text"] == "b"})
    functions = names(engine=engine)
    answers = functions["rlm_map"]("q", (text for text in ("a", "b", "c")))
    assert answers == ["a", "[failed: b]", "c"]
    assert [answer.failed for answer in answers] == [False, True, False]
    assert functions["rlm_map"]("q", {"one": "x", "two": "y"}) == ["x", "y"]
    assert functions["rlm_map"]("q", []) == []
    assert [(name, args["map"]) for name, args in engine.calls] == [("rlm", True)] * 2


def test_llm_map_asks_one_query_or_one_for_each_text() -> None:
    engine = Engine(
        lambda part: {"text": part.get("text", "span"), "failed": part.get("text") == "b"}
    )
    functions = names(engine=engine)
    answers = functions["llm_map"]("q", (text for text in ("a", "b", "c")))
    assert answers == ["a", "[failed: b]", "c"]
    assert [answer.failed for answer in answers] == [False, True, False]
    pairs = iter([("first?", functions["peek"](10)), ["second?", "x"]])
    assert functions["llm_map"](pairs) == ["span", "x"]
    assert functions["llm_map"]({"one": ("third?", "y")}) == ["y"]
    assert functions["llm_map"]([]) == functions["llm_map"]("q", []) == []
    assert {name for name, _ in engine.calls} == {"llm"}
    assert [args for _, args in engine.calls] == [
        {"query": "q", "parts": [{"text": text} for text in "abc"], "map": True},
        {"query": ["first?", "second?"], "parts": [{"span": [0, 10]}, {"text": "x"}], "map": True},
        {"query": ["third?"], "parts": [{"text": "y"}], "map": True},
    ]


def test_names_used_by_other_programs_work() -> None:
    engine = Engine(lambda part: {"text": "read", "failed": False})
    sandbox_names = names(engine=engine)
    long = "Sum it up.\n" + "x" * 30_000
    assert (sandbox_names["llm_query"]("why?"), sandbox_names["rlm_query"]("why?")) == (
        "read",
        "read",
    )
    assert sandbox_names["llm_query_batched"](["why?", long]) == ["read", "read"]
    (_, plain), (_, explored), (_, both) = engine.calls
    assert plain == explored == {"query": "why?", "parts": [{"text": ""}], "map": False}
    assert both["query"][0] == "why?"
    assert "It begins: Sum it up." in both["query"][1]
    assert both["parts"] == [{"text": ""}, {"text": long}]
    for code, text in (
        ("FINAL_VAR('found')", "42"),
        ("FINAL_VAR(found)", "42"),
        ("SUBMIT(found)", "42"),
        ("SUBMIT(answer=found)", "42"),
        ("def f():\n    local = 42\n    FINAL_VAR('local')\nf()", "42"),
        ("FINAL_VAR('nothing such')", "nothing such"),
        ("SUBMIT(a=1, b=2)", '{"a": 1, "b": 2}'),
        ("SUBMIT(1, 2)", "[1, 2]"),
    ):
        with pytest.raises(Final):
            exec(code, {**names(engine=engine), "found": 42})
        assert engine.notifications[-1] == ("final", {"text": text, "spans": []}), code
    with pytest.raises(NameError, match="there is no variable answr"):
        exec("FINAL_VAR('answr')", names())
    sandbox_names = {**names("a text"), "found": 42, "_hidden": 1}
    exec("shown = SHOW_VARS()", sandbox_names)
    assert sandbox_names["shown"] == "Available variables: {'context': 'str', 'found': 'int'}"


def test_llm_accepts_a_query_with_or_without_text() -> None:
    engine = Engine()
    functions = names(engine=engine)
    functions["llm"]("hello?")
    functions["llm"]("hello?", "text")
    functions["llm"]("hello?", functions["peek"](10))
    parts = [{"text": ""}, {"text": "text"}, {"span": [0, 10]}]
    for call, part in zip(engine.calls, parts, strict=True):
        assert call == ("llm", {"query": "hello?", "parts": [part], "map": False})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_shows_how_to_call(name: str) -> None:
    help_text = pydoc.plain(pydoc.render_doc(names()[name]))
    assert f"{name}(" in help_text
    assert "self" not in help_text.split("\n", 4)[2]
    assert "Example: " in help_text


# Answers, and their evidence in the text

Value = Callable[[dict[str, Any]], object]


def final(value: Value, text: str = LOG, **options: Any) -> dict[str, Any]:
    """Call FINAL with a value that is made with the names, and return the message to the engine."""
    sandbox_names = names(text, engine=(engine := Engine()), **options)
    with pytest.raises(Final):
        sandbox_names["FINAL"](value(sandbox_names))
    ((name, args),) = engine.notifications
    assert name == "final"
    return args


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
    assert final(lambda _names: value) == {"text": text, "spans": []}
    assert not issubclass(Final, Exception)


def test_answer_length_is_limited_and_an_empty_answer_accepted_the_second_time() -> None:
    final_of = names(engine=(engine := Engine()), max_answer_chars=100)["FINAL"]
    for value, message in (
        ("x" * 101, "the answer has 101 characters, and 100 is the most"),
        (itertools.count(), "more than 100 items"),
        ([], "which is no answer"),
    ):
        with pytest.raises(ValueError, match=message):
            final_of(value)
    for value in ([], "x" * 100):
        with pytest.raises(Final):
            final_of(value)
    assert [args["text"] for _, args in engine.notifications] == ["[]", "x" * 100]


def test_answer_cites_the_text_pieces_in_it() -> None:
    def spans(value: Value) -> Any:
        return final(value, LOG * 2)["spans"]

    half = len(LOG)
    hits = names(LOG * 2)["grep"]("ERROR")
    positions = [[hit.start, hit.end] for hit in hits]
    assert spans(lambda sandbox_names: sandbox_names["peek"](10)) == [[0, 10]]
    piece = [half + 5, half + 20]
    assert spans(lambda sandbox_names: [{"line": sandbox_names["context"][slice(*piece)]}]) == [
        piece
    ]
    assert spans(lambda sandbox_names: sandbox_names["context"][-30:][5:-5]) == [
        [2 * half - 25, 2 * half - 5]
    ]
    assert spans(lambda sandbox_names: LOG[200:300]) == [], "it is there twice"
    assert spans(lambda sandbox_names: LOG[-20:] + LOG[:19]) == [[half - 20, half + 19]]
    assert spans(lambda sandbox_names: sandbox_names["grep"]("ERROR")[::-1]) == positions
    assert spans(lambda sandbox_names: {"first": hits[0], "n": 3}) == positions[:1]
    assert spans(lambda sandbox_names: (hit for hit in hits)) == positions
    quoted = spans(lambda sandbox_names: f"I read: {sandbox_names['grep']('request id=r1 ')[0]}")
    assert quoted == [], "both lines were returned, and it is unknown which one is quoted"


def test_answer_cites_the_lines_it_quotes_or_names() -> None:
    def lines(answer: object, text: str = LOG) -> list[str]:
        value: Any = answer if callable(answer) else lambda sandbox_names: answer
        return [text[slice(*span)] for span in final(value, text)["spans"]]

    log_lines = LOG.split("\n")
    assert lines(lambda sandbox_names: f"The second is: {sandbox_names['grep']('ERROR')[1]}!") == [
        log_lines[13]
    ]
    assert lines(lambda sandbox_names: {"why": f"see {sandbox_names['peek'](30, 100)}"}) == [
        LOG[100:130]
    ]
    named = [log_lines[number - 1] for number in (3, 10, 12, 20)]
    assert lines("It is in line 3, and in lines 10, 12 and 20.") == named
    assert lines("r7 (line 8)\nr8 (line 9)") == [log_lines[7], log_lines[8]]
    assert lines("line 0, line 200 and line 201, line 999999999") == [log_lines[199]]
    assert lines("online 3 baseline") == []
    assert lines("There are, in all lines 60, no errors; in total, lines: 200.") == []
    assert lines("line 1, line 2, line 3", "a\nb") == ["a", "b"]
    assert lines(f"- {log_lines[4]}\n* {log_lines[6]}") == [log_lines[4], log_lines[6]]
    quoted = "They are \"id=r17 took\" and `r105 took 105`, not 'id=r300'."
    assert lines(quoted) == ["id=r17 took", "r105 took 105"]
    assert lines("r199") == ["r199"]
    assert lines("r19") == ["r19"]
    assert lines("r1") == [], "too short"
    assert lines("request", "a request, a request") == [], "it is there twice"
    assert lines("quest", "a request") == [], "it is a part of a word"


@pytest.mark.parametrize(
    ("hits", "spans"),
    [(slice(-1, None), [[96, 119]]), (-1, [[96, 119]]), (slice(1, 3), [[24, 47], [48, 71]])],
    ids=str,
)
def test_hit_is_cited_where_it_was_found_in_repeated_text(
    hits: Any, spans: list[list[int]]
) -> None:
    text = "same words in each line\n" * 5
    assert final(lambda sandbox_names: sandbox_names["grep"]("same")[hits], text)["spans"] == spans


def test_quotation_at_the_end_of_an_answer_is_cited_no_further() -> None:
    def quote(sandbox_names: dict[str, Any]) -> str:
        sandbox_names["peek"](60)
        return f"It begins: {sandbox_names['peek'](20)}"

    assert final(quote)["spans"] == [[0, 20]]


class PartWithHook(Part):
    """Calls a function when it is looked at."""

    hook: Callable[[], object] = staticmethod(lambda: None)

    def __hash__(self) -> int:
        self.hook()
        return str.__hash__(self)


def test_part_read_by_another_thread_is_found_in_the_next_text() -> None:
    finder = EvidenceFinder(LOG)
    slow_part = PartWithHook(LOG[:30], 0)
    other_part = Part(LOG[100:130], 100)
    other_thread = threading.Thread(target=finder.remember, args=[[other_part]])

    def read_in_other_thread() -> None:
        slow_part.hook = lambda: None
        other_thread.start()
        # It need not end before the first search does.
        other_thread.join(timeout=0.1)

    slow_part.hook = read_in_other_thread
    finder.remember([slow_part])
    assert finder.find_runs(LOG[:30]) == [(0, 0, 30)]
    other_thread.join()
    assert finder.find_runs(LOG[100:130]) == [(0, 100, 30)]


def test_line_numbers_are_meaningless_among_documents() -> None:
    documents = {"kind": "list", "parts": (("a", 0, 4), ("b", 4, 8))}
    answer = final(lambda _names: "line 1", "one\ntwo\n", **documents)
    assert answer == {"text": "line 1", "spans": []}


def test_text_part_survives_copying() -> None:
    part = names()["partition"](3)[1]
    copied = copy.deepcopy([part])[0]
    assert (copied, copied.start, copied.line) == (part, part.start, part.line)
    assert copied.end == part.end
    assert not isinstance(part[:5], Part)
    overridden = {name for name in vars(Part) if hasattr(str, name)}
    assert overridden == {"__doc__", "__module__", "__new__"}
