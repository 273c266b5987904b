"""Strings in a sandbox that know where they are from."""

from __future__ import annotations

import ast
import copy
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mahtab_tui.kernel.worker.sandbox import tracing
from mahtab_tui.kernel.worker.sandbox.names import Final, make_names
from mahtab_tui.kernel.worker.sandbox.parts import Source
from mahtab_tui.kernel.worker.sandbox.touches import MOST_IN_ALL, Touches
from mahtab_tui.kernel.worker.sandbox.tracing import NAMES, traced
from mahtab_tui.kernel.worker.sandbox.tracked import MOST_PIECES, MOST_RUNS, renew, runs_of, untracked
from tests.unit.sandbox_engine import Engine


@pytest.fixture(autouse=True)
def _renewed() -> None:
    renew()


# A model of where each character is from: pairs of a character and its place, which is None where no source has it.
Chars = list[tuple[str, "int | None"]]


class Known(NamedTuple):
    """A string, and what is true of it."""

    value: str
    chars: Chars


def source(text: str) -> Known:
    return Known(Source.of(text, Touches(Engine())), [(char, place) for place, char in enumerate(text)])


def cut(known: Known, found: str, start: int) -> Known:
    return Known(found, known.chars[start : start + len(found)])


def check(known: Known) -> None:
    """What a string says of itself is true; and if it says anything, it says all."""
    assert untracked(known.value) == "".join(char for char, _ in known.chars)
    said: list[int | None] = [None] * len(known.value)
    for low, length, at in runs_of(known.value):
        assert said[low : low + length] == [None] * length, "runs do not overlap"
        said[low : low + length] = range(at, at + length)
    assert said == [place for _, place in known.chars]


def lines(known: Known, keepends: bool) -> Iterator[Known]:
    place = 0
    plain = untracked(known.value)
    for found, whole in zip(known.value.splitlines(keepends), plain.splitlines(True), strict=True):
        yield cut(known, found, place)
        place += len(whole)


def pieces(known: Known, found: list[str], starts: list[int]) -> Iterator[Known]:
    assert [untracked(each) for each in found] == [
        untracked(known.value)[start : start + len(each)] for start, each in zip(starts, found, strict=True)
    ]
    for each, start in zip(found, starts, strict=True):
        yield cut(known, each, start)


def split_spans(text: str, sep: str | None, most: int) -> list[tuple[int, int]]:
    """Where `str.split` cuts."""
    spans: list[tuple[int, int]] = []
    place = 0
    while sep is not None and (most < 0 or len(spans) < most) and (end := text.find(sep, place)) >= 0:
        spans.append((place, end))
        place = end + len(sep)
    if sep is not None:
        return [*spans, (place, len(text))]
    while place < len(text):
        end = place
        while end < len(text) and not text[end].isspace():
            end += 1
        if end > place:
            if len(spans) == most:
                return [*spans, (place, len(text))]
            spans.append((place, end))
        place = end + 1
    return spans


def rsplit_spans(text: str, sep: str | None, most: int) -> list[tuple[int, int]]:
    """Where `str.rsplit` cuts: as `str.split` does in the text from its end to its beginning."""
    turned = split_spans(text[::-1], None if sep is None else sep[::-1], most)
    return [(len(text) - end, len(text) - start) for start, end in reversed(turned)]


TEXTS = st.text(alphabet="ab \n\té.", max_size=60)
SEPARATORS = st.sampled_from(["a", " ", "\n", "ab", "aa", "."])
PATTERNS = st.sampled_from([r"a+", r"(a)(b)?", r"\b\w+\b", r"(?<=a)b", r"a*", r"\n", r"(\w)\s"])


def derived(draw: Callable[..., Any], known: Known) -> list[Known]:
    """Strings that one operation makes of a string."""
    value, size = known.value, len(known.value)
    operation = draw(st.integers(0, 11))
    if operation == 0:
        start, end = draw(st.integers(-size - 2, size + 2) | st.none()), draw(st.integers(-size - 2, size + 2) | st.none())
        begin = slice(start, end).indices(size)[0]
        return [cut(known, value[start:end], begin)]
    if operation == 1:
        return list(lines(known, draw(st.booleans())))
    if operation == 2:
        sep = draw(SEPARATORS)
        first, second, third = value.partition(sep) if draw(st.booleans()) else value.rpartition(sep)
        starts = [0, len(first), len(first) + len(second)]
        return list(pieces(known, [first, second, third], starts))
    if operation == 3:
        chars = draw(st.sampled_from([None, "a", " \n"]))
        left = size - len(untracked(value).lstrip(chars))
        return [cut(known, value.strip(chars), left), cut(known, value.lstrip(chars), left), cut(known, value.rstrip(chars), 0)]
    if operation == 4:
        prefix = draw(SEPARATORS)
        shorter = value.removeprefix(prefix)
        return [cut(known, shorter, size - len(shorter)), cut(known, value.removesuffix(prefix), 0)]
    if operation == 5:
        return list(pieces(known, list(value), list(range(size))))
    if operation == 6:
        other = draw(TEXTS)
        plain: Chars = [(char, None) for char in other]
        return [Known(value + other, known.chars + plain), Known(other + value, plain + known.chars), Known(value + value, known.chars * 2)]
    if operation == 7:
        pattern, most = re.compile(draw(PATTERNS)), draw(st.integers(0, 3))
        found = [(each, number, match) for match in pattern.finditer(value) for number, each in enumerate([match[0], *match.groups()])]
        assert tracing.findall(pattern, value) == pattern.findall(untracked(value))
        assert tracing.split(pattern, value, most) == pattern.split(untracked(value), most)
        assert tracing.split(re, pattern.pattern, value, most) == re.split(pattern.pattern, untracked(value), maxsplit=most)
        groups = [cut(known, tracing.group(match, number), match.start(number)) for each, number, match in found if each is not None]
        items = [cut(known, tracing.item(match, number), match.start(number)) for each, number, match in found if each is not None]
        number = min(pattern.groups, 1)
        matches = [match for match in pattern.finditer(value) if match.start(number) >= 0] if pattern.groups < 2 else []
        listed = [each for each in tracing.findall(pattern, value) if each] if matches else []
        whole = [cut(known, each, match.start(number)) for each, match in zip(listed, (match for match in matches if match[number]), strict=True)]
        parts = tracing.split(pattern, value) if not pattern.groups else []
        ends = [0, *(match.end() for match in matches)]
        return groups + items + whole + [cut(known, part, end) for part, end in zip(parts, ends, strict=bool(parts))]
    if operation == 8:
        match = re.search(r"(?P<first>\w)(?P<second>\w)?", value)
        if match is None:
            return []
        named = tracing.groupdict(match)
        listed = tracing.groups(match)
        assert named == match.groupdict()
        return [cut(known, each, match.start(name)) for name, each in [*named.items(), *enumerate(listed, 1)] if each is not None]
    if operation == 9:
        parts = draw(st.lists(st.sampled_from(["x", "yz", value]), max_size=4))
        between = draw(st.sampled_from(["", ", ", value]))
        known_of = {id(value): known.chars}
        all_chars: Chars = []
        for number, part in enumerate(parts):
            for each in [between, part] if number else [part]:
                all_chars += known_of.get(id(each), [(char, None) for char in each])
        return [Known(tracing.join(between, parts), all_chars), Known(tracing.all_of("a", tracing.shown(value, -1, "")), [("a", None), *known.chars])]
    if operation == 10:
        sep, most = draw(SEPARATORS | st.none()), draw(st.integers(-1, 3))
        split, rsplit = split_spans(untracked(value), sep, most), rsplit_spans(untracked(value), sep, most)
        return [
            *pieces(known, value.split(sep, most), [start for start, _ in split]),
            *pieces(known, value.rsplit(sep, most), [start for start, _ in rsplit]),
        ]
    return [Known(str(value), known.chars), Known(copy.deepcopy([value])[0], known.chars)]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_whatever_is_done_with_the_text_what_is_said_of_its_places_is_true(data: st.DataObject) -> None:
    renew()
    strings = [source(data.draw(TEXTS))]
    for _ in range(data.draw(st.integers(1, 6))):
        known = data.draw(st.sampled_from(strings))
        found = derived(data.draw, known)
        for each in found:
            check(each)
        strings += found[:5]
        strings = strings[-12:]


def run(code: str, text: str = "", **names: Any) -> dict[str, Any]:
    """Run code as a sandbox does; returns its variables."""
    tree = traced(ast.parse(code))
    there: dict[str, Any] = {**NAMES, "re": re, "context": Source.of(text, Touches(Engine())), **names}
    exec(compile(tree, "<code>", "exec"), there)
    return there


TEXT = "".join(f"2026-03-{day:02d} paid {day * 100:04d} euros to account {day % 3}\n" for day in range(1, 31)) * 2
"""Each line has 40 characters, and is in it twice."""


@pytest.mark.parametrize(
    ("code", "spans"),
    [
        ("x = re.search(r'paid (\\d+)', context[200:]).group(1)", [(216, 220)]),
        ("x = re.search(r'paid (?P<sum>\\d+)', context[200:])['sum']", [(216, 220)]),
        ("m = re.search(r'(paid) (\\d+)', context)\nx = m[2]", [(16, 20)]),
        ("x = re.findall(r'paid \\d+', context)[1]", [(51, 60)]),
        ("x = re.findall(r'(paid) (\\d+)', context)[1][1]", [(56, 60)]),
        ("x = re.compile(r'\\d+ euros').findall(context[40:])[0]", [(56, 66)]),
        ("x = [m.group() for m in re.finditer('euros', context)][1]", [(61, 66)]),
        ("x = re.split(r'\\n', context)[1]", [(40, 79)]),
        ("x = ' and '.join(context.splitlines()[1:3])", [(40, 79), (80, 119)]),
        ("x = f'It says: {context.splitlines()[1]}!'", [(40, 79)]),
        ("x = f'{context[3:5]!s}{context[3:5]:>4}'", [(3, 5)]),
        ("x = 'It says: ' + context.split('\\n')[-2].strip() + '.'", None),
        ("x = sorted(context.splitlines(), key=len)[0]", None),
        ("x = max(context.split(), key=len)", None),
        ("x = context.lower()", []),
        ("x = '%s!' % context[:5]", []),
        ("x = context[:5].replace('2', '3')", []),
        ("import os\nx = os.path.join('a', 'b')", []),
        ("class A:\n    def group(self, n): return n\nx = str(A().group(5))", []),
        ("d = {'a': [1, 2]}\nd['a'][0] += 1\nx = str(d['a'][0])", []),
    ],
)
def test_code_as_models_write_it_keeps_places(code: str, spans: list[tuple[int, int]] | None) -> None:
    text = TEXT
    found = run(code, text)["x"]
    places = [(at, at + length) for _, length, at in runs_of(found)]
    for low, length, at in runs_of(found):
        assert found[low : low + length] == text[at : at + length]
    if spans is None:
        assert len(places) == 1
    else:
        assert places == spans


@pytest.mark.parametrize(
    "code",
    [
        "x = ','.join(str(n) for n in range(3))",
        "x = ','.join(map(str, 5))",
        "x = 5 .join('a')",
        "x = re.match('a', 'b').group()",
        "x = re.findall('a', 'aa', flags=re.I)",
        "x = re.split('b', 'abc', maxsplit=1)",
        "x = 'a b'.split()\ny = ' '.join(*[x])",
        "x = [f'{n:>{w}}' for n, w in [(1, 2)]]",
        "x = f'{1.5:.2f} {\"a\"!r} {{}}'",
        "x = (lambda *a: '-'.join(a))('p', 'q')",
        "async def f():\n    return f'{[n async for n in g()][0]}'\nasync def g():\n    yield 1\nx = 1",
        "from typing import Literal\nx: Literal['a'] = 'a'",
        "x = {}\nx['a'] = 1\ndel x['a']\nx = x.get('a', (1, 2)[0])",
        "x = re.findall(r'(a)|(b)', 'ab')",
    ],
)
def test_other_code_does_what_it_did(code: str) -> None:
    def outcome(tree: ast.Module, names: dict[str, Any]) -> tuple[str, str]:
        try:
            exec(compile(tree, "<code>", "exec"), names)
        except Exception as error:
            return type(error).__name__, str(error)
        return "", repr(names["x"])

    assert outcome(traced(ast.parse(code)), {**NAMES, "re": re}) == outcome(ast.parse(code), {"re": re})


def final(text: str, answer: Callable[[dict[str, Any]], object], engine: Engine | None = None, kind: str = "str", parts: Any = ()) -> dict[str, Any]:
    """What FINAL tells of an answer."""
    engine = engine or Engine()
    there: dict[str, Any] = make_names(text, kind, parts, engine)
    value = answer(there)
    with pytest.raises(Final):
        there["FINAL"](value)
    told: dict[str, Any] = engine.told[-1][1]
    return told


def test_a_slice_is_marked_where_it_was_taken_although_the_text_repeats() -> None:
    assert final(TEXT, lambda there: there["context"][1320:1340])["spans"] == [[1320, 1340]]
    start = len(TEXT) // 2
    told = final(TEXT, lambda there: [{"line": there["context"].splitlines()[30]}])
    assert told["spans"] == [[start, start + TEXT.index("\n")]]


def test_what_has_lost_its_place_is_unknown_unless_the_text_has_it_only_once() -> None:
    once = "This line is in the text only once, and it is longer than sixty-four characters.\n"
    text = TEXT + once
    twice = TEXT[80:200]
    assert final(text, lambda there: twice)["spans"] == [], "it is there twice"
    assert final(text, lambda there: once.strip())["spans"] == [[len(TEXT), len(text) - 1]]
    assert final(text, lambda there: once[:63])["spans"] == [], "so short a text could have been made up"
    quoted = final(text, lambda there: "I read: {}".format(*there["grep"]("paid 1000 ")))
    assert quoted["spans"] == [], "both lines were given, and it is unknown which one is quoted"


def test_answers_of_sub_calls_are_named_by_number() -> None:
    def numbered() -> Engine:
        numbers = itertools.count(1)
        return Engine(lambda part: {"text": f"an answer of some length to {part}", "failed": False, "number": next(numbers)})

    assert final(TEXT, lambda there: there["rlm_map"]("q", there["partition"](3))[1], numbered())["answers"] == [2]
    assert final(TEXT, lambda there: there["rlm"]("q", "a")[3:9], numbered())["answers"] == [1]
    assert final(TEXT, lambda there: "It is {}".format(there["rlm_map"]("q", ["a", "b"])[1]), numbered())["answers"] == [2]
    told = final(TEXT, lambda there: {"a": there["context"][5:9], "b": there["rlm"]("q", "a")}, numbered())
    assert (told["spans"], told["answers"]) == ([[5, 9]], [1])
    assert "answers" not in final(TEXT, lambda there: len(there["rlm"]("q", "a")), numbered())
    failing = Engine(lambda part: {"text": "no", "failed": True, "number": 1})
    assert "answers" not in final(TEXT, lambda there: there["rlm"]("q", "a"), failing)


@pytest.mark.parametrize(
    ("look", "seen"),
    [
        (lambda context: context[5:50] + context[50:60], [[5, 60]]),
        (lambda context: [context[place] for place in (3, 7)], [[3, 4], [7, 8]]),
        (lambda context: context.splitlines()[3], [[0, len(TEXT)]]),
        (lambda context: context.split(), [[0, len(TEXT)]]),
        (lambda context: Counter(context), [[0, len(TEXT)]]),
        (lambda context: print(context), [[0, len(TEXT)]]),
        (lambda context: tracing.findall(re, "euros", context[:60]), [[0, 60]]),
        (lambda context: tracing.findall(re, "account 1", context)[:1], None),
        (lambda context: tracing.group(re.search("euros", context)), [[21, 26]]),
        (lambda context: len(context) + context.count("a") + context.find("euros"), []),
    ],
)
def test_what_code_takes_out_of_the_text_counts_as_seen(look: Callable[[Any], object], seen: list[list[int]] | None) -> None:
    engine = Engine()
    touches = Touches(engine)
    there: dict[str, Any] = make_names(TEXT, "str", (), engine, touches=touches)
    look(there["context"])
    touches.flush()
    spans = [span for _, told in engine.told for span in told["spans"]]
    if seen is None:
        seen = [list(found.span()) for found in re.finditer("account 1", TEXT)]
    assert spans == seen


def test_documents_count_as_seen_where_they_are() -> None:
    engine = Engine()
    touches = Touches(engine)
    there: dict[str, Any] = make_names("one\ntwo\n", "list", (("a", 0, 4), ("b", 4, 8)), engine, touches=touches)
    assert there["context"][1][1:3] == "wo"
    touches.flush()
    assert engine.told == [("touch", {"how": "peek", "spans": [[5, 7]]})]
    assert final("one\ntwo\n", lambda there: there["context"][1][1:3], kind="list", parts=(("a", 0, 4), ("b", 4, 8)))["spans"] == [[5, 7]]


def test_a_loop_over_a_million_slices_sends_little() -> None:
    engine = Engine()
    touches = Touches(engine)
    context = Source.of("x" * 400_000, touches)
    for place in range(0, 400_000, 4):
        context[place : place + 1]
    touches.flush()
    assert sum(len(told["spans"]) for _, told in engine.told) == MOST_IN_ALL
    assert len(engine.told) < 50


def test_pieces_are_tracked_up_to_a_number_and_then_unknown() -> None:
    context = source("a b\n" * (MOST_PIECES // 2 + 1)).value
    assert len(runs_of(context.splitlines()[-1])) == 1
    assert not any(map(runs_of, context.split())), "the rest of this turn's pieces is not enough"
    assert runs_of(context.splitlines()[0]) == []
    renew()
    assert len(runs_of(context[5:7])) == 1
    lines = context.splitlines()[: MOST_RUNS + 1]
    assert runs_of(tracing.join(", ", lines)) == []
    assert len(runs_of(tracing.join(", ", lines[1:]))) == MOST_RUNS
    renew()
    found = tracing.findall(re, "a", context)
    assert [len(runs_of(each)) for each in found[tracing.MOST_FOUND - 1 : tracing.MOST_FOUND + 1]] == [1, 0]
    assert found == re.findall("a", untracked(context))
    renew()
    empty = tracing.findall(re, "c*", context)
    assert empty == re.findall("c*", untracked(context))


def test_adding_up_a_long_text_takes_linear_time() -> None:
    """A string of more pieces than are tracked is plain."""
    context, whole = source("line\n" * 20_000).value, ""
    for line in context.splitlines():
        whole += line + "; "
    assert 0 < len(runs_of(whole)) <= MOST_RUNS
    assert whole == "line; " * 20_000


def test_code_that_is_nested_deeply_still_runs() -> None:
    from mahtab_tui.kernel.worker.sandbox.turns import _compile

    code = "x = " + "+".join(["1"] * 900) + "\ny = ','.join('ab')"
    body, _ = _compile(code, "<code>")
    there: dict[str, Any] = {**NAMES}
    exec(body, there)
    assert (there["x"], there["y"]) == (900, "a,b")
