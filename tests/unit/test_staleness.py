"""Which cells have used variables that are different now, and what is said about them."""

from __future__ import annotations

import logging
import sys
import time
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from mahtab_tui.bus import records
from mahtab_tui.bus.code_flow import MAX_SOURCES, Definition, Flow, join_flows, limit_sources
from mahtab_tui.bus.code_inputs import find_inputs
from mahtab_tui.bus.conversation import Conversation
from mahtab_tui.bus.entries import AnswerText, Cell, describe_doubt
from mahtab_tui.bus.entry_names import cell_entry
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.stale_inputs import describe_stale
from mahtab_tui.bus.staleness import Staleness
from mahtab_tui.bus.values import Change, ChangeKind, Variable
from mahtab_tui.session.cell_ranges import format_cell_ranges
from mahtab_tui.session.stale_outputs import StaleOutputs
from mahtab_tui.tui.transcript.fold import Transcript
from tests.records import made
from tests.waiting import run_python

PROJECT = Path(__file__).parents[2]
NOTHING: Mapping[str, ChangeKind] = MappingProxyType({})


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("y = x + 1", "x"),
        ("x = 1\ny = x", ""),
        ("x += 1", "x"),
        ("x: int = k", "k"),
        ("df['a'] = b", "df b"),
        ("x.y.z = 1", "x"),
        ("del x", ""),
        ("del x[i]", "x i"),
        ("for i in xs: total += i", "xs total"),
        ("for i in xs: last = i\nlast", "xs last"),
        ("while n: m = n\nm", "n m"),
        ("if c: d = 1\nd", "c d"),
        ("if c: d = 1\nelse: d = 2\nd", "c"),
        ("if c: d = 1\nelif e: pass\nelse: d = 2\nd", "c e d"),
        ("try: a = b\nexcept E: a = c\na", "b E c"),
        ("try: a = b\nfinally: a", "b"),
        ("try: a = b\nexcept E as e: e\nfinally: f", "b E f"),
        ("with open(p) as file: file.read(n)", "open p n"),
        ("with open(p) as file: t = 1\nt", "open p"),
        ("with suppress(E): t = f(x)\nt", "suppress E f x t"),
        ("x += (x := k)", "x k"),
        ("match a:\n  case [x, *y]: x, y\n  case {'k': z, **rest}: z, rest\n  case w: w", "a"),
        ("(m := n) and m", "n"),
        ("[x * k for x in xs if x > low]", "xs k low"),
        ("{v: w for v, w in pairs}", "pairs"),
        ("[x for x in x if x]", "x"),
        ("list(map(lambda v, w=d: v + g, xs))", "list map d g xs"),
        ("print(f'{v!r:>{w}}')", "print v w"),
        ("import numpy as np\nnp.x", ""),
        ("def f(a, b=d): return a + b + g", "d"),
        ("def f(): return g\nf()", "g"),
        ("def f(): return g\ng = 1\nf()", ""),
        ("def g(): return h\ndef f(): return g()\nf()", "h"),
        ("if c:\n  def f(): return g\nf()", "c f g"),
        ("def f(): return g\nf()\ndef g(): return h\nf()", "g h"),
        ("def f(): global t; t += 1\nf()", "t"),
        ("@wrap\ndef f(): global t; t = u; return t", "wrap"),
        ("class A(B, metaclass=M): k = 1", "B M"),
        ("class A: k = n; m = k\nk", "n k"),
        ("class A:\n  k = 1\n  def m(self): return k\nA", "k"),
        ("def f(): return a\nif c: f = len\nf()", "a c len"),
        ("def f():\n  t = 1\n  def g(): global t; return t\n  return g\nf()", "t"),
        ("def f(vs): [v := w for w in vs]; return v\nf(xs)", "xs"),
        ("from m import *\nsin(x)", "sin x"),
        ("def f(v):\n  df: DataFrame = v\n  return df\nf(x)", "x"),
        ("%matplotlib inline\nprint(df)", "__mahtab_magic__ print df"),
        ("await get(url)", "get url"),
        ("this is no code", ""),
        ("x = " + "(" * 100_000, ""),
        ("x\n" * 100_000, ""),
        ("%time y = f(x)\nprint(y)", "f x print"),
        ("%%time\ny = x\ny", "x"),
        ("%timeit y = f(x)\nprint(y)", "f x print y"),
        ("%%timeit y = x\nf(y)", "f x"),
        ("%%capture out\n%%time\nx + 1", "x"),
        ("%%python\nx", "__mahtab_magic__"),
    ],
)
def test_code_uses_the_names_that_it_reads_before_it_binds_them(code: str, names: str) -> None:
    assert find_inputs(code).names == set(names.split())


def test_definitions_are_known_with_what_their_code_reads() -> None:
    code = (
        "def f(a):\n    import os\n    def inner(): return os.x, a, K, f\n    return inner\n"
        "class A(B):\n    k = n\n    def m(self): return self.x + C\n"
        "g = lambda v: v + D\n"
    )
    definitions = find_inputs(code).definitions
    names = {name: definition.names for name, definition in definitions.items()}
    assert names == {"f": {"K", "f"}, "A": {"B", "C"}, "g": {"D"}}
    assert [name for name, definition in definitions.items() if definition.is_class] == ["A"]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("h = f", "f"),
        ("h: object = f", "f"),
        ("i = h = f", "f"),
        ("g = f\nh = g", "f"),
        ("def f(): return x\nh = f", "x"),
        ("def f(): return x\nh = f\ndef f(): return y", "x"),
        ("class A:\n  def m(self): return x\nh = A()", "x A"),
        ("class A:\n  def m(self): return x\nh = A", "x"),
        ("def f(): return x\nh = f()", ""),
        ("h = f\nh = 1", ""),
        ("f = 1\nh = f", ""),
        ("class A: h = f", ""),
    ],
)
def test_code_of_a_variable_is_known_under_its_other_names(code: str, names: str) -> None:
    inputs = find_inputs(code)
    known_names = set[str]()
    if definition := inputs.definitions.get("h"):
        known_names |= definition.names
    if origin := inputs.origins.get("h"):
        known_names.add(origin.name)
    assert known_names == set(names.split())


@pytest.mark.parametrize(
    ("code", "name", "sources"),
    [
        ("y = x + 1", "y", "x"),
        ("y = 1", "y", ""),
        ("y = x\ny = 2", "y", ""),
        ("y = x\nz = y", "z", "x"),
        ("limit = 20\nwarm = t >= limit\nprint(k)", "warm", "t"),
        ("a, b = 1, x", "a", ""),
        ("a, b = 1, x", "b", "x"),
        ("a, b = b, a", "a", "b"),
        ("a, b = f(x)", "a", "f x"),
        ("x += k", "x", "x k"),
        ("y = 1\ny += k", "y", "k"),
        ("if c: y = a\nelse: y = b", "y", "c a b"),
        ("if c: y = a", "y", "c a"),
        ("y = 1\nif c: y = a\nz = y", "z", "c a"),
        ("if c: y = a\nz = y", "z", "c a y"),
        ("for i in xs: y = i * k", "y", "xs k"),
        ("total = 0\nfor i in xs: total += i", "total", "xs"),
        ("rows = []\nfor i in xs: rows.append(i * k)", "rows", "xs k"),
        ("with open(p) as file: y = file.read()", "y", "open p"),
        ("df['a'] = b", "df", "df b"),
        ("df['a'] = b\nn = len(df)", "n", "len df b"),
        ("d[0].e.append(a)", "d", "d a"),
        ("def f(): return g\ny = f()", "y", "g"),
        ("def f(): return g", "f", ""),
        ("def f(k=d): return g", "f", "d"),
        ("class A:\n  size = a\n  def m(self): return b", "A", "a"),
        ("class A:\n  k = a\nk = 1\ny = k", "y", ""),
        ("class A: df['a'] = b", "df", "df b"),
        ("try:\n  t = x\n  g()\nexcept E: z = t", "z", "E g t x"),
        ("y = 0\ntry:\n  y = a\n  y = b\nexcept E: pass\nz = y", "z", "a b"),
        ("for i in xs:\n  a = b\n  b = k", "a", "xs b k"),
        ("b = c = 0\nfor i in xs:\n  a = b\n  b = c\n  c = k", "a", "xs k"),
        ("a = b = 0\nfor i in xs:\n  a = b\n  y = k", "a", "xs"),
        ("b = 0\nfor i in xs:\n  for j in ys:\n    a = b\n  b = k", "a", "xs ys k"),
        ("b = 0\nwhile b < n:\n  a = b\n  b += k", "a", "n k"),
        ("def f(): return df\nf()\ndf['a'] = b\ny = f()", "y", "df b"),
        ("def f(): return rows\nf()\nrows.append(k)\ny = f()", "y", "rows k"),
        ("def f(): return df\nif c:\n  df['a'] = b\n  f()\nelse: y = f()", "y", "c df"),
        ("def f():\n  class A:\n    x: T = 1\n  y: U = 1\ny = f()", "y", "T"),
        ("t = 0\nfor v in xs:\n  if v > low: continue\n  t += k", "t", "xs low k"),
        ("t = 0\nwhile True:\n  t += 1\n  if t > n: break", "t", "n"),
        ("for v in xs:\n  for w in ys:\n    t = 0\n    if w > k: break", "t", "xs ys k"),
        ("for v in xs:\n  for w in ys:\n    if w > k: break\n  t = v", "t", "xs"),
        ("for v in xs:\n  t = v\n  if c: continue\n  t = k\ny = t", "y", "xs c k t"),
        ("for v in xs:\n  if v: break\n  t = 1\nelse: y = k\nz = n", "y", "xs k"),
        ("for v in xs:\n  if v: break\nz = n", "z", "n"),
        ("try: int(a)\nexcept E: y = 0\nelse: y = 1\nfinally: z = k", "y", "int a E"),
        ("try: int(a)\nexcept E: y = 0\nelse: y = 1\nfinally: z = k", "z", "k"),
        ("for v in xs:\n  try: w = int(v)\n  except E: continue\n  t = 1", "t", "xs int E"),
        ("while 1:\n  try: g(a); break\n  except E: pass\n  y = 1", "y", "g a"),
        ("for v in xs:\n  with suppress(E): g(a); break\n  y = 1", "y", "xs suppress E g a"),
        ("for v in xs:\n  with suppress(E): g(a); continue\n  y = 1", "y", "xs suppress E g a"),
        (
            "while 1:\n  with suppress(E):\n    f(k)\n    with suppress(E):\n      g(a)\n"
            "      if c: break\n  y = 1",
            "y",
            "suppress E f k g a c",
        ),
        (
            "with suppress(E):\n  f(k)\n  for v in xs:\n    if c: break\n    y = 1",
            "y",
            "suppress E xs c",
        ),
        (
            "while 1:\n  with suppress(E):\n    f(k)\n    for v in xs:\n      h(b)\n"
            "    break\n  y = 1",
            "y",
            "suppress E f k xs h b",
        ),
        ("with suppress(E): g(a); y = 1", "y", "suppress E"),
        ("try: g(a); y = 1\nexcept E: pass", "y", ""),
        ("[last := v * k for v in xs]", "last", "xs k"),
        ("y = [v * k for v in xs]", "y", "xs k"),
        ("y = " + " + ".join(f"x{n}" for n in range(101)), "y", ""),
        ("y = " + " + ".join(f"x{n}" for n in range(101)) + "\nz = y + a", "z", ""),
    ],
)
def test_sources_of_a_value_are_the_names_that_reach_it(code: str, name: str, sources: str) -> None:
    assert find_inputs(code).sources[name] == set(sources.split())


@pytest.mark.parametrize(
    ("code", "name", "sources"),
    [
        ("fill(data, k)", "data", "fill data k"),
        ("data = 1\nfill(data)", "data", None),
        ("if c: data = 1\nfill(data)", "data", "fill c data"),
        ("fill(data, k)\nif c: data = 1", "data", "fill data k"),
        ("fill(data, k)\ndata = 1", "data", None),
        ("fill(data)\nclass A: data = None", "data", "fill data"),
        ("class A: fill(data)", "data", "fill data"),
        ("class A:\n  data = a\n  fill(data)", "data", None),
        ("import numpy as data\nm = data.mean(X)", "data", None),
        ("import numpy as data\nm = list(map(data.mean, X))", "data", None),
        ("import data\nt = configure(data, k)", "data", "configure k"),
        ("class data: pass\nsetattr(data, 'k', k)", "data", "setattr k"),
        ("class data: pass\nm = isinstance(X, data)", "data", None),
        ("class data: pass\nm = data.load(X)", "data", None),
        ("class data: pass\nm = list(map(data.load, X))", "data", None),
        ("class data: pass\ndata = k\nm = data.load(X)", "data", "X k"),
        ("m = issubclass(data, X)", "data", None),
        ("m = isinstance(fill(data), X)", "data", "isinstance fill data X"),
        ("try: a = f()\nexcept find(data): pass", "data", "f find data"),
        ("try: import data\nexcept ImportError: data = None\nm = data.load(X)", "data", None),
        (
            "try: import data\nexcept ImportError: data = k\nm = data.load(X)",
            "data",
            "X ImportError k",
        ),
        ("def data(): pass\nm = list(map(data, X))", "data", None),
        ("data[0](X)", "data", None),
        ("data = -25\nprint(data, X)", "data", None),
        ("data = 5 * 60, 'a'\nprint(data, X)", "data", None),
        ("data, warm = 25, X > 25\nprint(data, warm)", "data", None),
        ("print(X, data := 5)", "data", None),
        ("data = [25]\nprint(data, X)", "data", "print X"),
    ],
)
def test_sources_of_calls_are_the_names_in_their_statements(
    code: str, name: str, sources: str | None
) -> None:
    expected = None if sources is None else set(sources.split())
    assert find_inputs(code).call_sources.get(name) == expected


def test_names_that_a_function_binds_are_mentioned_wherever_it_is_used() -> None:
    inputs = find_inputs("def bind(v): global y; y = v\nbind(1)\nbind(k)")
    assert "k" in inputs.mention_sources["y"]


@pytest.mark.parametrize(
    ("code", "name", "sources"),
    [
        ("try: a = f()\nexcept E: b = g()", "E", "f E"),
        ("try: a = f()\nexcept (E := h): b = g()", "h", "f h"),
        ("try: a = f()\nexcept E: pass\nexcept errors[k]: pass", "errors", "f E errors k"),
        ("try: a = f()\nexcept E: b = g()\nfinally: c = k", "k", "k"),
        ("try: a = f()\nexcept E: b = g()\nc = k", "k", "k"),
    ],
)
def test_sources_of_a_mention_are_the_names_that_reach_its_statement(
    code: str, name: str, sources: str
) -> None:
    assert find_inputs(code).mention_sources[name] == set(sources.split())


def test_code_that_takes_quadratic_time_is_not_read() -> None:
    names = ",".join(f"a{number}" for number in range(1_500))
    definition = f"def f():\n {names}\n"
    assert find_inputs(f"{definition}f()").names
    code = definition + "class A: f\n" * 900
    assert find_inputs(code) == find_inputs("")


def test_code_whose_names_have_many_sources_each_is_not_read() -> None:
    names = [f"a{number}" for number in range(500)]
    sources = ",".join(f"b{number}" for number in range(99))
    definitions = f"{'='.join(names)} = [{sources}]\ndef f(): {','.join(names)}\n"
    assert find_inputs(f"{definitions}f;x=1\n").names
    assert find_inputs(definitions + "f;x=1\n" * 100) == find_inputs("")


def test_sources_above_the_limit_are_equal_and_contain_no_names() -> None:
    many_sources = limit_sources({f"a{number}" for number in range(150)})
    assert many_sources == limit_sources({f"b{number}" for number in range(MAX_SOURCES + 1)})
    assert many_sources == limit_sources(many_sources | {"c"})
    assert not any(map(str.isidentifier, many_sources))
    assert limit_sources({"c"}) == {"c"}


def test_definition_that_all_branches_share_is_not_copied() -> None:
    definition = Definition(frozenset(("a", "b")))
    flow = Flow(definitions={"f": definition})
    assert join_flows([flow, flow.copy()]).definitions["f"] is definition


def test_reading_a_long_try_statement_needs_little_memory() -> None:
    assignments = "".join(f" a{number}=1\n" for number in range(2_000))
    tracemalloc.start()
    find_inputs(f"try:\n{assignments}except: pass")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 30 * 2**20


def test_star_import_binds_no_name_that_is_known() -> None:
    assert find_inputs("from m import *").sources == {}


class CellHistory:
    """Cells of a session, with what they change."""

    def __init__(self, transcript: Transcript | None = None) -> None:
        """transcript: takes all records together, when somebody looks at it; its marks come in parts.
        By default, a conversation takes each at once."""
        self._conversation = transcript or Conversation()
        self.records: list[Record] = []
        """Those that nobody has looked at."""
        self.count = 0

    @property
    def conversation(self) -> Conversation:
        self._conversation.fold(self.records)
        self.records.clear()
        while isinstance(self._conversation, Transcript) and self._conversation.is_behind:
            self._conversation.fold([])
        return self._conversation

    def cell(
        self,
        code: str,
        changes: Mapping[str, ChangeKind] = NOTHING,
        turn: int | None = None,
        *,
        status: str = "ok",
        value_numbers: Mapping[str, int] | None = None,
    ) -> None:
        """Run a cell of the user, or of the model as an answer to a question.

        Args:
            code: The cell's code.
            changes: How it changes variables.
            turn: The number of the question; None for the user's cell.
            status: How it ends.
            value_numbers: The numbers of values that are compared.
        """
        self.count += 1
        cell = self.count
        if turn is None:
            self.fold(records.UserReplIn(code, cell=cell, party="you"))
        else:
            place = {"turn": turn, "step": 0, "block": 0}
            self.fold(made("assistant-repl-in", code, {"cell": cell, "party": "demo", **place}))
        self.fold(records.Namespace(cell=cell, changes=described(changes, value_numbers or {})))
        self.fold(records.UserReplOut("1\n", cell=cell, status=status, duration=0.1))

    def undo(self, cell: int, **restored: int) -> None:
        """Undo a cell. restored: for each variable, the cell that had made it; 0 deletes it."""
        self.fold(records.Undo("Undone.", cells=(cell,), undone=True))
        for name, maker in restored.items():
            changes = described({name: "changed"} if maker else {name: "deleted"})
            self.fold(records.Namespace(cell=maker, changes=changes, restored=True))

    def fold(self, record: Record) -> None:
        self.records.append(record)
        if not isinstance(self._conversation, Transcript):
            self._conversation.fold([self.records.pop()])

    @property
    def outdated(self) -> list[int | None]:
        return [cell.number for cell in self.conversation.outdated_cells]

    def doubt_of(self, answer: AnswerText) -> str:
        """Return what is said about an answer whose cells no longer hold; empty if they do."""
        assert answer in self.conversation.entries
        return describe_doubt(answer.doubtful_cells) if answer.doubtful_cells else ""

    def rerun_of(self, number: int) -> int | None:
        entries = self.conversation.entries
        (cell,) = (entry for entry in entries if entry.key == cell_entry(number))
        assert isinstance(cell, Cell)
        return cell.rerun_number

    @property
    def stale(self) -> dict[int, str]:
        """What is said about stale cells, by their numbers."""
        cells = (entry for entry in self.conversation.entries if isinstance(entry, Cell))
        return {
            cell.number or 0: describe_stale(cell.stale_inputs)
            for cell in cells
            if cell.stale_inputs and not cell.undone
        }


def described(
    changes: Mapping[str, ChangeKind], value_numbers: Mapping[str, int] = MappingProxyType({})
) -> tuple[Change, ...]:
    """value_numbers: the numbers of values that are compared, by the names of the variables."""
    described_changes: list[Change] = []
    for name, change in changes.items():
        variable = None if change == "deleted" else Variable(name, "int", "1", "data")
        number = value_numbers.get(name)
        described_changes.append(Change(name, change, variable, value_number=number))
    return tuple(described_changes)


@pytest.fixture(params=[None, 1, 2], ids=["at once", "in parts of 1", "in parts of 2"])
def history(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CellHistory:
    history = CellHistory()
    if request.param is not None:
        monkeypatch.setattr("mahtab_tui.tui.transcript.fold.MAX_FOLDED_CHANGES", request.param)
        history = CellHistory(Transcript(since=0.0))
    history.cell("x = 1", {"x": "added"})
    history.cell("print(x)")
    assert history.stale == {}
    return history


def test_cell_is_stale_once_another_has_changed_its_input(history: CellHistory) -> None:
    history.cell("x = 5", {"x": "rebound"})
    assert history.stale == {2: "uses `x` from In 1, changed by In 3"}
    history.cell("x = 6", {"x": "rebound"})
    assert history.stale == {2: "uses `x` from In 1, changed by In 3"}
    history.cell("del x", {"x": "deleted"})
    assert list(history.stale) == [2]


def test_input_that_is_made_again_with_an_equal_value_has_not_changed(history: CellHistory) -> None:
    history.cell("y = 1; print(y)", {"y": "added"}, value_numbers={"y": 1})
    history.cell("print(y)")
    history.cell("y = 1", {"y": "rebound"}, value_numbers={"y": 1})
    assert history.stale == {}
    history.cell("print(y, y)")
    history.cell("y = 2", {"y": "rebound"}, value_numbers={"y": 2})
    assert history.stale == {
        4: "uses `y` from In 3, changed by In 7",
        6: "uses `y` from In 5, changed by In 7",
    }
    history.cell("y = 1", {"y": "rebound"}, value_numbers={"y": 1})
    assert history.stale == {}, "the old value is back"
    history.cell("y += 0", {"y": "rebound"}, value_numbers={"y": 1})
    history.cell("y += 1", {"y": "rebound"}, value_numbers={"y": 2})
    assert sorted(history.stale) == [4, 6]
    history.cell("y = 1", {"y": "rebound"}, value_numbers={"y": 1})
    assert history.stale == {}, "cell 10 would make the same again"


def test_deleted_input_is_named(history: CellHistory) -> None:
    history.cell("del x", {"x": "deleted"})
    assert history.stale == {2: "uses `x` from In 1, deleted by In 3"}


def test_only_the_last_run_of_stale_code_runs_again(history: CellHistory) -> None:
    history.cell("y = x", {"y": "added"})
    history.cell("print(y)")
    history.cell("x = 5", {"x": "rebound"})
    assert list(history.stale) == [2, 3]
    assert history.outdated == [2, 3, 4], "cell 4 uses what cell 3 has made"
    history.cell("print(x)")
    assert history.outdated == [3, 4]
    history.undo(6)
    assert history.outdated == [2, 3, 4]
    history.cell("x = 6", {"x": "rebound"})
    history.cell("print(x)")
    assert history.outdated == [3, 4]
    assert history.rerun_of(2) == 8, "cell 6 was undone"
    history.undo(3, y=0)
    assert history.outdated == [4]


def test_cell_that_failed_does_not_run_again(history: CellHistory) -> None:
    history.cell("y = x; 1 / 0", {"y": "added"}, status="error")
    history.cell("print(y)")
    history.cell("x = 5", {"x": "rebound"})
    assert list(history.stale) == [2, 3]
    assert history.outdated == [2]


def test_rerun_counts_only_while_it_is_not_undone(history: CellHistory) -> None:
    history.cell("print(x)")
    history.cell("x = 5", {"x": "rebound"})
    assert history.rerun_of(2) == 3
    history.undo(3)
    assert history.rerun_of(2) is None
    history.fold(records.Undo("Redone.", cells=(3,), undone=False))
    assert history.rerun_of(2) == 3


def test_undo_makes_a_result_hold_again(history: CellHistory) -> None:
    history.cell("x = 5", {"x": "rebound"})
    history.cell("print(x + 1)")
    history.undo(3, x=1)
    assert history.stale == {4: "uses `x` from In 3, now that from In 1"}
    history.undo(1, x=0)
    assert history.stale[2] == "uses `x` from In 1, which is gone"


def test_cell_that_changes_what_an_undo_has_brought_back_is_named(history: CellHistory) -> None:
    history.cell("x = 5", {"x": "rebound"})
    history.cell("print(x + 1)")
    history.undo(3, x=1)
    history.cell("x = 7", {"x": "rebound"})
    assert history.stale == {
        2: "uses `x` from In 1, changed by In 5",
        4: "uses `x` from In 3, changed by In 5",
    }
    history.cell("del x", {"x": "deleted"})
    history.cell("print(x + 2)")
    history.fold(records.Namespace(cell=0, fresh=True, changes=described({"x": "added"})))
    assert history.stale[2] == "uses `x` from In 1, which is now a different object"
    history.cell("x = 8", {"x": "rebound"})
    assert history.stale[2] == "uses `x` from In 1, changed by In 8"


def test_undo_names_a_cell_that_has_changed_what_it_brings_back(history: CellHistory) -> None:
    history.cell("x = 5", {"x": "rebound"})
    history.cell("x = 6", {"x": "rebound"})
    history.undo(4, x=3)
    assert history.stale == {2: "uses `x` from In 1, changed by In 3"}


def test_undo_leaves_the_first_change_before_it(history: CellHistory) -> None:
    deleted = {2: "uses `x` from In 1, deleted by In 3"}
    history.cell("del x", {"x": "deleted"})
    history.cell("x = 5", {"x": "added"})
    history.undo(4, x=0)
    assert history.stale == deleted
    history.cell("x = 6", {"x": "added"})
    assert history.stale == deleted
    history.fold(records.Namespace(cell=0, fresh=True))
    assert history.stale == deleted
    history.fold(records.Namespace(cell=0, changes=described({"x": "restoring"})))
    assert history.stale == deleted


def test_undo_of_a_cell_that_made_an_equal_value_names_the_cell_before_it(
    history: CellHistory,
) -> None:
    history.cell("k = 5", {"k": "added"}, value_numbers={"k": 7})
    for _ in range(2):
        history.cell("k = 5", {"k": "rebound"}, value_numbers={"k": 7})
    history.undo(5)
    history.undo(4)
    history.cell("print(k)")
    history.cell("k = 6", {"k": "rebound"}, value_numbers={"k": 8})
    assert history.stale == {6: "uses `k` from In 3, changed by In 7"}


def test_value_that_an_undo_has_brought_back_is_known(history: CellHistory) -> None:
    history.cell("x = 5", {"x": "rebound"})
    history.fold(records.Undo("undone", cells=(3,), undone=True))
    restored = described({"x": "rebound"}, {"x": 7})
    history.fold(records.Namespace(cell=1, changes=restored, restored=True))
    assert history.stale == {}
    history.cell("x = x", {"x": "rebound"}, value_numbers={"x": 7})
    assert history.stale == {}


def test_redo_names_the_cell_that_deletes_again(history: CellHistory) -> None:
    history.cell("del x", {"x": "deleted"})
    history.undo(3, x=1)
    assert history.stale == {}
    history.fold(records.Undo("redone", cells=(3,), undone=False))
    history.fold(records.Namespace(cell=0, changes=described({"x": "deleted"}), restored=True))
    assert history.stale == {2: "uses `x` from In 1, deleted by In 3"}


@pytest.mark.parametrize(
    "loss",
    [
        records.Namespace(cell=0, fresh=True),
        records.Namespace(cell=0, changes=described({"y": "absent"})),
        records.Namespace(cell=0, changes=described({"y": "deleted"}), restored=True),
    ],
)
def test_variable_that_was_made_again_after_its_deletion_is_not_lost_by_that(
    history: CellHistory, loss: Record
) -> None:
    history.cell("y = 1", {"y": "added"}, value_numbers={"y": 7})
    history.cell("print(y)")
    history.cell("del y", {"y": "deleted"})
    history.cell("y = 1", {"y": "added"}, value_numbers={"y": 7})
    assert history.stale == {}
    history.fold(loss)
    assert history.stale[4] == "uses `y` from In 3, which is gone"


def test_variable_that_a_kernel_does_not_have_was_not_deleted_by_a_cell_of_an_earlier_one(
    history: CellHistory,
) -> None:
    history.cell("del x", {"x": "deleted"})
    history.fold(records.Namespace(cell=0, fresh=True, changes=described({"x": "added"})))
    history.fold(records.Namespace(cell=0, fresh=True))
    assert history.stale == {2: "uses `x` from In 1, which is gone"}


def test_undo_names_the_deletion_before_the_cell_that_made_an_equal_value(
    history: CellHistory,
) -> None:
    history.cell("y = 1", {"y": "added"}, value_numbers={"y": 7})
    history.cell("print(y)")
    history.cell("del y", {"y": "deleted"})
    history.cell("y = 1", {"y": "added"}, value_numbers={"y": 7})
    history.undo(6, y=0)
    assert history.stale == {4: "uses `y` from In 3, deleted by In 5"}


def test_redo_names_the_cell_that_made_an_equal_value_again(history: CellHistory) -> None:
    history.cell("k = 5", {"k": "added"}, value_numbers={"k": 7})
    history.cell("k = 5", {"k": "rebound"}, value_numbers={"k": 7})
    history.undo(4)
    history.fold(records.Undo("redone", cells=(4,), undone=False))
    history.cell("print(k)")
    history.cell("k = 6", {"k": "rebound"}, value_numbers={"k": 8})
    assert history.stale == {5: "uses `k` from In 4, changed by In 6"}


def test_undo_does_not_leave_a_first_change_that_it_has_undone(history: CellHistory) -> None:
    history.cell("x = 5", {"x": "rebound"})
    history.cell("x = 6", {"x": "rebound"})
    history.undo(3)
    history.undo(4, x=0)
    assert history.stale == {2: "uses `x` from In 1, which is gone"}


def test_undo_names_no_cell_that_it_has_undone(history: CellHistory) -> None:
    history.cell("x = 5", {"x": "rebound"}, value_numbers={"x": 2})
    history.cell("print(x)")
    history.cell("x = 6", {"x": "rebound"}, value_numbers={"x": 3})
    history.cell("x = 5", {"x": "rebound"}, value_numbers={"x": 2})
    history.cell("x = 7", {"x": "rebound"}, value_numbers={"x": 4})
    assert history.stale[4] == "uses `x` from In 3, changed by In 7"
    history.undo(7)
    history.undo(6, x=5)
    assert history.stale[4] == "uses `x` from In 3, changed by In 5"


def test_unknown_changes_mark_nothing(history: CellHistory) -> None:
    history.cell("g()", {"x": "perhaps"})
    assert history.stale == {}


def test_cell_that_changes_its_input_is_stale_only_if_that_was_made_anew(
    history: CellHistory,
) -> None:
    history.cell("x = x + 1", {"x": "rebound"})
    history.cell("x += 2", {"x": "rebound"})
    assert list(history.stale) == [2], "cells that build on each other hold"
    history.cell("x = 1", {"x": "rebound"})
    assert history.stale == {
        2: "uses `x` from In 1, changed by In 3",
        3: "uses `x` from In 1, changed by In 5",
        4: "uses `x` from In 3, changed by In 5",
    }


def test_what_a_called_function_reads_counts(history: CellHistory) -> None:
    history.cell("def f(): return g()", {"f": "added"})
    history.cell("def g(): return x", {"g": "added"})
    history.cell("f()")
    history.cell("x = 2", {"x": "rebound"})
    assert list(history.stale) == [2, 5]
    history.cell("def g(): return 0", {"g": "rebound"})
    assert history.stale[5] == "uses `x` from In 1, changed by In 6; `g` from In 4, changed by In 7"


def test_names_that_begin_with_an_underscore_count(history: CellHistory) -> None:
    history.cell("def _load(): return x", {"_load": "added"})
    history.cell("_load()")
    history.cell("x = 2", {"x": "rebound"})
    history.cell("def _load(): return 0", {"_load": "rebound"})
    assert (
        history.stale[4]
        == "uses `x` from In 1, changed by In 5; `_load` from In 3, changed by In 6"
    )


def test_function_under_another_name_is_followed(history: CellHistory) -> None:
    history.cell("def f(): return x", {"f": "added"})
    history.cell("h = f", {"h": "added"})
    history.cell("h()")
    history.cell("def f(): return 0", {"f": "rebound"})
    assert 5 not in history.stale, "`h` is the function from before"
    history.cell("x = 2", {"x": "rebound"})
    assert history.stale[5] == "uses `x` from In 1, changed by In 7"


def test_methods_of_an_instance_are_followed(history: CellHistory) -> None:
    history.cell("class A:\n    def m(self): return x", {"A": "added"})
    history.cell("def make(): return x", {"make": "added"})
    history.cell("a = A(); b = a; value = make()", {"a": "added", "b": "added", "value": "added"})
    history.cell("a.m()")
    history.cell("b.m()")
    history.cell("value")
    history.cell("x = 2", {"x": "rebound"})
    assert history.stale[6] == history.stale[7] == "uses `x` from In 1, changed by In 9"
    assert 8 not in history.stale, "`value` is a value, and not a function"
    history.cell("class B(A): pass", {"B": "added"})
    history.cell("B().m()")
    history.cell("x = 3", {"x": "rebound"})
    assert history.stale[11] == "uses `x` from In 9, changed by In 12"
    history.cell("A.size = 1", {"A": "changed"})
    assert "`A` from In 3, changed by In 13" in history.stale[6]


def test_class_that_is_changed_in_place_still_reads_what_it_did(history: CellHistory) -> None:
    history.cell("class A:\n    def m(self): return x", {"A": "added"})
    history.cell("A.size = 1", {"A": "changed"})
    history.cell("A().m()")
    history.cell("x = 2", {"x": "rebound"})
    assert history.stale[5] == "uses `x` from In 1, changed by In 6"


def test_cell_that_deletes_what_it_used_is_stale_once_that_was_made_anew(
    history: CellHistory,
) -> None:
    history.cell("print(x); del x", {"x": "deleted"})
    assert list(history.stale) == [2]
    history.cell("x = 2", {"x": "added"})
    assert history.stale[3] == "uses `x` from In 1, changed by In 4"


def test_damaged_session_may_have_a_number_twice(history: CellHistory) -> None:
    history.cell("print(x)")
    history.count = 1
    history.cell("print(2)")
    history.count = 3
    history.cell("x = 5", {"x": "rebound"})
    history.cell("print(x)")
    assert history.stale == {3: "uses `x` from In 1, changed by In 4"}
    assert history.rerun_of(3) == 5
    history.undo(5)
    assert history.outdated == [3]


@pytest.mark.slow
def test_cells_that_change_a_variable_in_turn_are_followed_in_linear_time() -> None:
    staleness = Staleness()
    changes = described({"x": "changed"})
    staleness.fold(records.Namespace(cell=1, changes=changes))
    started = time.perf_counter()
    for cell in range(2, 10_000):
        staleness.start(cell, "x.append(1)")
        staleness.fold(records.Namespace(cell=cell, changes=changes))
    assert time.perf_counter() - started < 20


def test_many_inputs_are_counted() -> None:
    history = CellHistory()
    history.cell("a = b = c = d = e = 1", dict.fromkeys("abcde", "added"))
    history.cell("a + b + c + d + e")
    history.cell("a = b = c = d = e = 2", dict.fromkeys("abcde", "rebound"))
    assert history.stale[2].endswith("; and 2 more")
    assert history.stale[2].count("`") == 6


def test_new_kernel_leaves_stale_what_did_not_come_back(history: CellHistory) -> None:
    history.cell("y = 1", {"y": "added"})
    history.cell("print(y)")
    history.fold(records.Namespace(cell=0, fresh=True))
    changes = described({"x": "added"})
    history.fold(records.Namespace(cell=1, changes=changes, restored=True))
    assert history.stale == {4: "uses `y` from In 3, which is gone"}


def test_variables_that_are_being_restored_leave_nothing_stale_until_one_is_lost(
    history: CellHistory,
) -> None:
    history.cell("y = x", {"y": "added"})
    history.cell("print(x, y)")
    history.fold(records.Namespace(cell=0, fresh=True))
    assert set(history.stale) == {2, 3, 4}
    history.fold(records.Namespace(cell=0, changes=described({"x": "restoring", "y": "restoring"})))
    assert history.stale == {}
    history.fold(records.Namespace(cell=0, changes=described({"y": "absent"})))
    assert history.stale == {4: "uses `y` from In 3, which is gone"}


def test_answer_under_a_number_that_is_used_again_rests_on_its_own_cells(
    history: CellHistory,
) -> None:
    for _ in range(2):
        history.fold(records.UserChat("What is x?", turn=1))
        history.cell("x", turn=1)
        history.fold(records.AssistantChat("It is 1.", turn=1, step=1, party="demo"))
    history.undo(3)
    answer = history.conversation.entries[-2]
    assert isinstance(answer, AnswerText)
    assert history.doubt_of(answer) == ""


def test_answer_names_cells_below_it_that_no_longer_hold(history: CellHistory) -> None:
    history.fold(records.UserChat("What is x?", turn=1))
    history.fold(records.AssistantChat("```python\nx\n```", turn=1, step=0, party="demo"))
    history.cell("x", turn=1)
    history.fold(records.AssistantChat("It is 1.", turn=1, step=1, party="demo"))
    answer = history.conversation.entries[-1]
    assert isinstance(answer, AnswerText)
    assert history.doubt_of(answer) == ""
    history.cell("x = 5", {"x": "rebound"})
    assert history.doubt_of(answer) == "rests on In 3 (stale)"
    history.undo(4, x=1)
    assert history.doubt_of(answer) == ""
    history.undo(3)
    assert history.doubt_of(answer) == "rests on In 3 (undone)"


def test_reused_number_of_a_question_leaves_earlier_cells_alone(history: CellHistory) -> None:
    for _ in range(2):
        history.fold(records.UserChat("What is x?", turn=1))
        history.fold(records.AssistantChat("```python\nx\n```", turn=1, step=0, party="demo"))
        history.cell("x", turn=1)
        history.fold(records.AssistantChat("It is 1.", turn=1, step=1, party="demo"))
    history.cell("x = 5", {"x": "rebound"})
    answer = history.conversation.entries[-2]
    assert isinstance(answer, AnswerText)
    assert history.doubt_of(answer) == "rests on In 4 (stale)"


def test_answer_names_cells_that_were_stale_when_it_arrived(history: CellHistory) -> None:
    history.fold(records.UserChat("What is x?", turn=1))
    history.fold(records.AssistantChat("```python\nx\n```", turn=1, step=0, party="demo"))
    history.cell("x", turn=1)
    history.cell("x = 5", {"x": "rebound"})
    history.fold(records.AssistantChat("It is 1.", turn=1, step=1, party="demo"))
    answer = history.conversation.entries[-1]
    assert isinstance(answer, AnswerText)
    assert history.doubt_of(answer) == "rests on In 3 (stale)"


def test_answer_names_no_cell_that_a_later_step_for_it_made_stale(history: CellHistory) -> None:
    history.fold(records.UserChat("Clean x.", turn=1))
    history.cell("print(x)", turn=1)
    history.cell("x = 5", {"x": "rebound"}, turn=1)
    history.cell("print(x + 1)", turn=1)
    history.fold(records.AssistantChat("It is 5 now.", turn=1, step=3, party="demo"))
    answer = history.conversation.entries[-1]
    assert isinstance(answer, AnswerText)
    assert history.doubt_of(answer) == ""
    history.cell("x = 6", {"x": "rebound"})
    assert history.doubt_of(answer) == "rests on In 5 (stale)"


def told_lines(*past: Record, question: str = "") -> list[str]:
    return StaleOutputs(past).tell(question).splitlines()


def ran(
    number: int,
    code: str,
    changes: Mapping[str, ChangeKind] = NOTHING,
    turn: int | None = None,
    **value_numbers: int,
) -> list[Record]:
    """Return the records of a cell.

    Args:
        turn: The question for which the model ran it, if any.
        value_numbers: The numbers of values that are compared.
    """
    started: Record = records.UserReplIn(code, cell=number, party="you")
    if turn is not None:
        place = {"turn": turn, "step": 0, "block": 0}
        started = made("assistant-repl-in", code, {"cell": number, "party": "demo", **place})
    return [started, records.Namespace(cell=number, changes=described(changes, value_numbers))]


def test_stale_cells_that_have_used_the_same_are_described_in_one_line() -> None:
    users = [record for number in (2, 3, 5, 6, 7) for record in ran(number, f"x + {number}")]
    changes = [*ran(4, "y = 1", {"y": "added"}), *ran(8, "x = 2", {"x": "rebound"})]
    past = [*ran(1, "x = 1", {"x": "added"}), *users, *changes]
    assert told_lines(*past) == ["In 2, 3 and 5 to 7 use `x` from In 1, changed by In 8"]


def test_of_many_stale_cells_the_newest_and_those_asked_about_are_described() -> None:
    names = [f"v{number}" for number in range(10)]
    added: dict[str, ChangeKind] = dict.fromkeys(names, "added")
    rebound: dict[str, ChangeKind] = dict.fromkeys(names, "rebound")
    past = ran(1, "...", added)
    for number, name in enumerate(names, 2):
        past += ran(number, f"w{number} = {name}", {f"w{number}": "added"})
    past += ran(12, "...", rebound)
    told_cells = [line.split(" uses")[0] for line in told_lines(*past)]
    assert told_cells == ["In 7", "In 8", "In 9", "In 10", "In 11", "and 5 more cells"]
    for question in ("Does v1 hold?", "Does w3 hold?"):
        told_cells = [line.split(" uses")[0] for line in told_lines(*past, question=question)]
        assert told_cells == ["In 3", "In 8", "In 9", "In 10", "In 11", "and 5 more cells"]


def test_cells_that_were_only_counted_are_described_with_the_next_question() -> None:
    names = [f"v{number}" for number in range(7)]
    past = ran(1, "...", dict.fromkeys(names, "added"))
    for number, name in enumerate(names, 2):
        past += ran(number, f"print({name})")
    past += ran(9, "...", dict.fromkeys(names, "rebound"))
    stale_outputs = StaleOutputs(past)
    assert stale_outputs.tell().splitlines()[-1] == "and 2 more cells"
    assert stale_outputs.tell("Does v0 hold?").splitlines() == [
        "In 2 uses `v0` from In 1, changed by In 9",
        "In 3 uses `v1` from In 1, changed by In 9",
    ]
    assert stale_outputs.tell() == ""


def test_cells_that_printed_what_they_made_are_described_after_the_cells_that_used_it() -> None:
    names = "abcdef"
    past: list[Record] = []
    for number, name in enumerate(names, 1):
        past += ran(number, f"{name} = 1; print({name})", {name: "added"})
    past += ran(7, f"print({', '.join(names)})")
    past += ran(8, "...", dict.fromkeys(names, "rebound"))
    stale_outputs = StaleOutputs(past)
    told_cells = [line.split(" uses")[0] for line in stale_outputs.tell().splitlines()]
    assert told_cells == ["In 3", "In 4", "In 5", "In 6", "In 7", "and 2 more cells"]
    assert stale_outputs.tell().splitlines() == [
        "In 1 uses `a` from In 1, changed by In 8",
        "In 2 uses `b` from In 2, changed by In 8",
    ]
    assert stale_outputs.tell() == ""


def test_cell_that_printed_what_it_made_is_described_once_whatever_else_changes() -> None:
    stale_outputs = StaleOutputs(
        [
            *ran(1, "t = 1", {"t": "added"}, t=1),
            *ran(2, "y = t; print(y)", {"y": "added"}),
            *ran(3, "print(y)"),
            *ran(4, "y = 5", {"y": "rebound"}),
        ]
    )
    assert stale_outputs.tell() == "In 2 and 3 use `y` from In 2, changed by In 4"
    for record in ran(5, "t = 2", {"t": "rebound"}, t=2):
        stale_outputs.fold(record)
    assert stale_outputs.tell() == "In 2 uses `t` from In 1, changed by In 5"
    for record in ran(6, "t = 1", {"t": "rebound"}, t=1):
        stale_outputs.fold(record)
    assert stale_outputs.tell() == ""


def test_cell_that_holds_again_is_named_once_if_it_was_said_to_be_stale() -> None:
    stale_outputs = StaleOutputs(
        [
            *ran(1, "x = 1; y = 1", {"x": "added", "y": "added"}, x=1, y=1),
            *ran(2, "print(x)"),
            *ran(3, "print(x, y)"),
            *ran(4, "print(x + 1)"),
            *ran(5, "z = x; print(z)", {"z": "added"}),
            *ran(6, "print(z)"),
            *ran(7, "z = 5", {"z": "rebound"}),
            *ran(8, "x = 5", {"x": "rebound"}, x=2),
        ]
    )
    assert stale_outputs.tell() != ""
    assert stale_outputs.tell_holding() == ""
    for record in (
        *ran(9, "y = 2", {"y": "rebound"}, y=2),
        *ran(10, "x = 1", {"x": "rebound"}, x=1),
        *ran(11, "print(x + 1)"),
    ):
        stale_outputs.fold(record)
    assert stale_outputs.tell().splitlines() == [
        "In 3 uses `y` from In 1, changed by In 9",
        "In 5 uses `z` from In 5, changed by In 7",
    ]
    hidden = HiddenEntries()
    hidden.fold(records.Hide("Hidden.", entry="cell 2", hidden=True))
    assert stale_outputs.tell_holding(hidden) == ""
    assert stale_outputs.tell_holding() == "In 2", "In 4 has run again, and `z` is another one"
    assert stale_outputs.tell_holding() == ""
    for record in ran(12, "y = 1", {"y": "rebound"}, y=1):
        stale_outputs.fold(record)
    assert stale_outputs.tell() == ""
    assert stale_outputs.tell_holding() == "In 3"


def test_cell_that_was_undone_or_taken_back_does_not_hold_again() -> None:
    past = [
        *ran(1, "x = 1", {"x": "added"}, x=1),
        *ran(2, "print(x)"),
        *ran(3, "x = 5", {"x": "rebound"}, x=2),
    ]
    same_value = ran(4, "x = 1", {"x": "rebound"}, x=1)
    for record in (
        records.Undo("Undone.", cells=(2,), undone=True),
        records.Replace("", entry="question 1", restored=False),
    ):
        stale_outputs = StaleOutputs(past)
        stale_outputs.tell()
        stale_outputs.fold(record)
        for later_record in same_value:
            stale_outputs.fold(later_record)
        assert stale_outputs.tell_holding() == ""


def test_cell_that_printed_several_things_that_it_made_is_described_in_one_line() -> None:
    names = "abcdefgh"
    past = [
        *ran(
            1, f"{' = '.join(names)} = 1; print({', '.join(names)})", dict.fromkeys(names, "added")
        ),
        *ran(2, f"print({', '.join(names)})"),
        *ran(3, "...", dict.fromkeys(names, "rebound")),
    ]
    inputs = "; ".join(f"`{name}` from In 1, changed by In 3" for name in "abc")
    assert told_lines(*past) == [f"In 1 and 2 use {inputs}; and 5 more"]


def test_stale_variables_are_searched_only_to_choose_among_too_many_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[Staleness] = []
    search = Staleness.stale_variables

    def count(staleness: Staleness) -> dict[str, tuple[int, int]]:
        searches.append(staleness)
        return search(staleness)

    monkeypatch.setattr(Staleness, "stale_variables", count)
    names = [f"v{number}" for number in range(6)]
    past = ran(1, "...", dict.fromkeys(names, "added"))
    for number, name in enumerate(names, 2):
        past += ran(number, f"print({name})")
    for rebound_count, search_count in ((0, 0), (5, 0), (6, 1)):
        searches.clear()
        assert (
            len(told_lines(*past, *ran(8, "...", dict.fromkeys(names[:rebound_count], "rebound"))))
            == rebound_count
        )
        assert len(searches) == search_count


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([], ""),
        ([2], "2"),
        ([2, 3], "2 and 3"),
        ([2, 4, 5, 6, 9], "2, 4 to 6 and 9"),
        ([*range(1, 19, 2), 21, 22], "1, 3, 5, 7, 9, 11, 13, 15, 17 and 2 more"),
        ([*range(1, 21, 2), *range(31, 40)], "1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 9 more"),
    ],
)
def test_many_cells_are_named_in_few_words(cells: list[int], words: str) -> None:
    assert format_cell_ranges(cells) == words


def test_each_stale_input_of_a_cell_is_told_once() -> None:
    stale_outputs = StaleOutputs(
        [
            *ran(1, "x = 1; y = 1", {"x": "added", "y": "added"}),
            *ran(2, "print(x, y)", turn=1),
            *ran(3, "x = 5", {"x": "rebound"}, turn=1),
        ]
    )
    assert stale_outputs.tell() == "", "the model has changed `x` itself"
    for record in ran(4, "y = 5", {"y": "rebound"}):
        stale_outputs.fold(record)
    assert stale_outputs.tell() == "In 2 uses `y` from In 1, changed by In 4"
    assert stale_outputs.tell() == ""


def test_input_that_changes_again_after_it_was_back_is_told_again() -> None:
    stale_outputs = StaleOutputs(
        [
            *ran(1, "x = 1; y = 1", {"x": "added", "y": "added"}, x=1, y=1),
            *ran(2, "print(x, y)"),
            *ran(3, "x = 5; y = 5", {"x": "rebound", "y": "rebound"}, x=5, y=5),
        ]
    )
    assert stale_outputs.tell() == (
        "In 2 uses `x` from In 1, changed by In 3; `y` from In 1, changed by In 3"
    )
    for record in ran(4, "x = 1", {"x": "rebound"}, x=1):
        stale_outputs.fold(record)
    assert stale_outputs.tell() == ""
    for record in ran(5, "x = 7", {"x": "rebound"}, x=7):
        stale_outputs.fold(record)
    assert stale_outputs.tell() == "In 2 uses `x` from In 1, changed by In 5"


def test_cell_that_made_one_of_the_changed_inputs_is_not_said_to_use_the_others() -> None:
    past = [
        *ran(1, "x = 1", {"x": "added"}),
        *ran(2, "y = 1; print(y)", {"y": "added"}),
        *ran(3, "print(x, y)"),
        *ran(4, "x = 5; y = 5", {"x": "rebound", "y": "rebound"}),
    ]
    assert told_lines(*past) == [
        "In 2 uses `y` from In 2, changed by In 4",
        "In 3 uses `x` from In 1, changed by In 4; `y` from In 2, changed by In 4",
    ]


def test_cell_is_told_for_what_it_made_though_the_model_changed_what_it_used() -> None:
    past = [
        *ran(1, "t = 1", {"t": "added"}),
        *ran(2, "y = t + 1; print(y)", {"y": "added"}, turn=1),
        *ran(3, "t = 2", {"t": "rebound"}, turn=1),
        *ran(4, "print(y)", turn=2),
        *ran(5, "y = 5", {"y": "rebound"}),
    ]
    assert told_lines(*past) == ["In 2 and 4 use `y` from In 2, changed by In 5"]


def test_model_is_not_told_what_its_own_next_step_has_changed() -> None:
    first = ran(1, "x = 1", {"x": "added"})
    steps = [*ran(2, "print(x)", turn=1), *ran(3, "x = 5", {"x": "rebound"}, turn=1)]
    assert told_lines(*first, *steps) == []
    later_step = ran(3, "x = 5", {"x": "rebound"}, turn=2)
    assert told_lines(*first, *steps[:2], *later_step) == [
        "In 2 uses `x` from In 1, changed by In 3"
    ]


def test_hidden_cell_is_described_once_it_is_shown_again() -> None:
    past = [
        *ran(1, "x = 1", {"x": "added"}),
        *ran(2, "print(x)"),
        *ran(3, "x = 5", {"x": "rebound"}),
    ]
    stale_outputs = StaleOutputs(past)
    hidden = HiddenEntries()
    hidden.fold(records.Hide("Hidden.", entry="cell 2", hidden=True))
    assert stale_outputs.tell("", hidden) == ""
    assert stale_outputs.tell("") == "In 2 uses `x` from In 1, changed by In 3"
    assert stale_outputs.tell("") == ""


def test_resumed_cells_are_followed_when_needed_and_before_new_ones() -> None:
    past = [*ran(1, "x = 1", {"x": "added"}), *ran(2, "print(x)")]
    remaining_past = iter(past)
    stale_outputs = StaleOutputs(remaining_past)
    new_records = ran(3, "x = 5", {"x": "rebound"})
    assert next(remaining_past) is past[0], "all of them are followed at once"
    stale_outputs = StaleOutputs(past)
    for record in new_records:
        stale_outputs.fold(record)
    assert stale_outputs.tell() == "In 2 uses `x` from In 1, changed by In 3"


def test_variable_is_marked_only_if_its_own_value_was_computed_from_a_replaced_one() -> None:
    stale_outputs = StaleOutputs(
        [
            *ran(1, "x = 1; other = 1", {"x": "added", "other": "added"}),
            *ran(2, "limit = 25; y = x; z = other", dict.fromkeys(("limit", "y", "z"), "added")),
            *ran(3, "a = y + 1; b = z; c = [limit]", dict.fromkeys("abc", "added")),
            *ran(4, "c.append(y)", {"c": "changed"}),
            *ran(5, "x = 5", {"x": "rebound"}),
        ]
    )
    assert stale_outputs.stale_marks() == {
        "y": "from In 2 (stale)",
        "a": "rests on In 2 (stale)",
        "c": "rests on In 2 (stale)",
    }
    for record in [
        *ran(6, "y = x", {"y": "rebound"}),
        *ran(7, "a = 2", {"a": "rebound"}),
        *ran(8, "c = []", {"c": "rebound"}),
    ]:
        stale_outputs.fold(record)
    assert stale_outputs.stale_marks() == {}


@pytest.mark.parametrize(("input_count", "is_known"), [(50, True), (150, False)])
def test_sources_through_a_function_are_known_unless_they_are_too_many(
    input_count: int, is_known: bool
) -> None:
    inputs = [f"x{number}" for number in range(input_count)]
    results = [f"y{number}" for number in range(200)]
    stale_outputs = StaleOutputs(
        [
            *ran(1, "exec(code)", dict.fromkeys(inputs, "added")),
            *ran(2, f"def f(): return {' + '.join(inputs)}", {"f": "added"}),
            *ran(
                3, "\n".join(f"{name} = f()" for name in results), dict.fromkeys(results, "added")
            ),
            *ran(4, "x0 = 5", {"x0": "rebound"}),
        ]
    )
    assert set(stale_outputs.stale_marks()) == (set(results) if is_known else set())


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("m = Model(); history = m.fit(X)", "m history"),
        ("m = Model(); _ = m.fit(X)", "m _"),
        ("m = Model(); print(m.fit(X))", "m"),
        ("m = Model()\nif m.fit(X): pass", "m"),
        ("r = []; heapq.heappush(r, X)", "r"),
        ("p = {}; fill(p, X)", "p"),
        ("r = []; [r.append(v) for v in X]", "r"),
        ("limit = 25; warm = X > limit; print(limit, warm)", "warm"),
        ("r = []; fill(r, X); r = []", ""),
    ],
)
def test_calls_may_change_what_they_are_given(code: str, names: str) -> None:
    all_names = ["m", "history", "_", "r", "p", "limit", "warm"]
    stale_outputs = StaleOutputs(
        [
            *ran(1, "X = 1", {"X": "added"}),
            *ran(2, code, {name: "added" for name in all_names if f"{name} =" in code}),
            *ran(3, "X = 5", {"X": "rebound"}),
        ]
    )
    assert set(stale_outputs.stale_marks()) == set(names.split())


def test_mark_is_gone_when_an_equal_value_was_computed_from_what_is_there_now() -> None:
    past = [
        *ran(1, "x = 1", {"x": "added"}),
        *ran(2, "y = x > 0", {"y": "added"}, y=1),
        *ran(3, "z = y", {"z": "added"}),
        *ran(4, "x = 5", {"x": "rebound"}),
    ]
    stale_outputs = StaleOutputs(past)
    assert set(stale_outputs.stale_marks()) == {"y", "z"}
    for record in ran(5, "y = x > 0", {"y": "rebound"}, y=1):
        stale_outputs.fold(record)
    assert stale_outputs.stale_marks() == {}
    for record in ran(6, "x = 6", {"x": "rebound"}):
        stale_outputs.fold(record)
    assert stale_outputs.stale_marks() == {
        "y": "from In 5 (stale)",
        "z": "rests on In 5 (stale)",
    }


def test_swapped_and_repeated_steps_of_a_cell_leave_no_mark() -> None:
    stale_outputs = StaleOutputs(
        [
            *ran(1, "a = 1; b = 2", {"a": "added", "b": "added"}),
            *ran(2, "a, b = b, a", {"a": "rebound", "b": "rebound"}),
            *ran(3, "a += 1", {"a": "rebound"}),
            *ran(4, "a += 1", {"a": "rebound"}),
            *ran(5, "del b", {"b": "deleted"}),
        ]
    )
    assert stale_outputs.stale_marks() == {}


def test_cell_that_made_and_printed_a_replaced_value_is_told_with_those_that_used_it() -> None:
    warm: dict[str, ChangeKind] = {"limit": "added", "warm": "added"}
    warm_again: dict[str, ChangeKind] = {"limit": "rebound", "warm": "rebound"}
    code = "limit = {}; warm = t > limit; print(sum(warm))"
    past = [
        *ran(1, "t = read()", {"t": "added"}),
        *ran(2, code.format(20), warm, turn=1, limit=1, warm=2),
        *ran(3, "print(warm[0])", turn=2),
        *ran(4, code.format(25), warm_again, turn=3, limit=3, warm=4),
    ]
    line = "In 2 and 3 use `warm` from In 2, changed by In 4"
    assert told_lines(*past) == [line]
    assert told_lines(*past[:4], *ran(4, "limit = 25", {"limit": "rebound"})) == []
    again = ran(5, code.format(20), warm_again, turn=4, limit=1, warm=2)
    assert told_lines(*past, *again) == []
    undone = records.Undo("Undone.", cells=(2,), undone=True)
    assert told_lines(*past, undone) == ["In 3 uses `warm` from In 2, changed by In 4"]


def test_variables_of_stale_cells_are_marked_until_they_are_made_anew() -> None:
    stale_outputs = StaleOutputs(
        [
            *ran(1, "x = 1", {"x": "added"}),
            *ran(2, "y = [x]; z = x", {"y": "added", "z": "added"}),
            *ran(3, "y.append(2)", {"y": "changed"}),
            *ran(4, "x = 5", {"x": "rebound"}),
        ]
    )
    changed_since = "rests on In 2 (stale)"
    assert stale_outputs.stale_marks() == {"y": changed_since, "z": "from In 2 (stale)"}
    [stale_cell] = stale_outputs.stale_cells()
    assert (stale_cell.number, stale_cell.code) == (2, "y = [x]; z = x")
    assert stale_cell.reason == "uses `x` from In 1, changed by In 4"
    log = logging.Logger("test")
    log.addHandler(stale_outputs)
    for record in ran(5, "z = 0", {"z": "rebound"}):
        records.emit(log, record)
    assert stale_outputs.stale_marks() == {"y": changed_since}


def test_variables_that_rest_on_stale_ones_are_marked() -> None:
    past = [
        *ran(1, "x = 1", {"x": "added"}),
        *ran(2, "y = x", {"y": "added"}),
        *ran(3, "z = y", {"z": "added"}),
        *ran(4, "v = z; w = 1", {"v": "added", "w": "added"}),
        *ran(5, "w = 2", {"w": "rebound"}),
        *ran(6, "x = 5", {"x": "rebound"}),
    ]
    rest = dict.fromkeys(("z", "v"), "rests on In 2 (stale)")
    assert StaleOutputs(past).stale_marks() == {"y": "from In 2 (stale)", **rest}
    again = ran(7, "y = x", {"y": "rebound"})
    marks = StaleOutputs([*past, *again]).stale_marks()
    assert marks == {"z": "from In 3 (stale)", "v": "rests on In 3 (stale)"}


@pytest.mark.parametrize(
    ("code", "change", "marks"),
    [
        # Under another name of the same object
        ("b.append(k)", {"a": "changed", "b": "changed"}, "a b"),
        ("b[0] = k; y = 1", {"a": "changed", "b": "changed", "y": "rebound"}, "a b"),
        ("b.append(1); y = k", {"a": "changed", "b": "changed", "y": "rebound"}, "y"),
        # By a function of an earlier cell
        ("put()", {"a": "changed", "b": "changed"}, "a b"),
        ("put(); print(a)", {"a": "changed", "b": "changed"}, "a b"),
        ("bind()", {"y": "rebound"}, "y"),
        ("call_bind()", {"y": "rebound"}, "y"),
        ("bind_other()", {"y": "rebound"}, ""),
        ("bind()", {"bind": "changed", "a": "changed"}, ""),
        # By a function of the cell itself
        ("def bind(): global y; y = k\nbind()", {"y": "rebound", "bind": "rebound"}, "y"),
    ],
)
def test_variables_that_a_cell_changes_without_naming_them_are_marked(
    code: str, change: Mapping[str, ChangeKind], marks: str
) -> None:
    functions = (
        "def put(): a.append(k)\n"
        "def bind(): global y; y = k\n"
        "def call_bind(): bind()\n"
        "def bind_other(): global y; y = n"
    )
    names = "put bind call_bind bind_other".split()
    past = [
        *ran(1, "k = n = 1; a = b = []; y = 0", dict.fromkeys("knaby", "added")),
        *ran(2, functions, dict.fromkeys(names, "added")),
        *ran(3, code, change),
        *ran(4, "k = 2", {"k": "rebound"}),
    ]
    assert StaleOutputs(past).stale_marks().keys() - names == set(marks.split())


def print_call_count(function_count: int) -> None:
    """Print how many functions are called to find what is stale after a cell that calls a chain of
    functions."""
    past = ran(1, "k = 1; y = 0", {"k": "added", "y": "added"})
    for number in range(function_count):
        past += ran(number + 2, f"def f{number}(): f{number + 1}()", {f"f{number}": "added"})
    past += ran(function_count + 2, "f0()", {"y": "rebound"})
    call_count = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal call_count
        call_count += event == "call"

    sys.setprofile(count)
    StaleOutputs(past).stale_marks()
    sys.setprofile(None)
    print(call_count)


def test_functions_that_a_cell_calls_are_followed_in_linear_time() -> None:
    # In processes of their own: Python 3.11 may hang in a profiled call while another thread waits.
    call_counts = [
        int(
            run_python(
                "-c", f"from {__name__} import *; print_call_count({count})", cwd=PROJECT
            ).stdout
        )
        for count in (200, 400)
    ]
    assert call_counts[1] < 2.5 * call_counts[0]


def test_model_is_not_told_about_undone_cells() -> None:
    past = [
        *ran(1, "x = 1", {"x": "added"}),
        *ran(2, "print(x)"),
        *ran(3, "x = 5", {"x": "rebound"}),
    ]
    assert told_lines(*past) == ["In 2 uses `x` from In 1, changed by In 3"]
    undone = [
        records.Undo("Undone.", cells=(2, 3), undone=True),
        records.Namespace(cell=1, changes=described({"x": "changed"}), restored=True),
    ]
    changed = ran(4, "x = 6", {"x": "rebound"})
    assert told_lines(*past, *undone, *changed) == []


@pytest.fixture
def long_transcript(monkeypatch: pytest.MonkeyPatch) -> Transcript:
    """Make a transcript of a stale cell below one with very many changes, which wait."""
    monkeypatch.setattr("mahtab_tui.tui.transcript.fold.MAX_FOLDED_CHANGES", 100)
    transcript = Transcript(since=0.0)
    many: dict[str, ChangeKind] = dict.fromkeys((f"x{number}" for number in range(350)), "added")
    history = CellHistory(transcript)
    history.cell("make()", many)
    history.cell("print(x349)")
    history.cell("x349 = 0", {"x349": "rebound"})
    transcript.fold(history.records)
    return transcript


def test_marks_of_a_cell_with_very_many_changes_come_in_parts(long_transcript: Transcript) -> None:
    cells = [entry for entry in long_transcript.entries if isinstance(entry, Cell)]
    assert [cell.number for cell in cells] == [1, 2, 3]
    long_transcript.pop_changed()
    for _ in range(3):
        assert long_transcript.is_behind
        assert not cells[1].stale_inputs
        long_transcript.fold([])
    assert not long_transcript.is_behind
    assert describe_stale(cells[1].stale_inputs) == "uses `x349` from In 1, changed by In 3"
    assert long_transcript.positions[cells[1]] in long_transcript.pop_changed()


def test_outdated_cells_are_known_before_their_marks(long_transcript: Transcript) -> None:
    long_transcript.pop_changed()
    assert long_transcript.is_behind
    (outdated_cell,) = long_transcript.outdated_cells
    assert outdated_cell.number == 2
    assert long_transcript.positions[outdated_cell] in long_transcript.pop_changed()
