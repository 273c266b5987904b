"""Hostile and rare objects: inspecting them runs none of their code and changes nothing."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import (
    InspectedObject,
    InspectorClient,
    ObjectPath,
    TableArrangement,
)
from tests.integration.inspection import TRAP, Looking, looking, named
from tests.integration.kernels import PATIENCE
from tests.waiting import wait_for

ZOO = (
    TRAP
    + '''
import collections, dataclasses, enum, io, json, sys, threading, time
SPECIAL = """__repr__ __str__ __len__ __iter__ __getitem__ __getattr__ __eq__ __ne__ __lt__ __hash__ __bool__ __contains__ __dir__ __format__ __sizeof__
    __reduce_ex__ __index__ __int__ __float__ __call__ __enter__ __next__ __reversed__ __array__ __dataframe__ __arrow_c_stream__ __fspath__""".split()
traps = {name: trap(name) for name in SPECIAL}
traps["__class__"] = property(trap("__class__"))
traps["prop"] = property(trap("prop"))
traps["_repr_html_"] = trap("_repr_html_")

class Meta(type):
    __repr__ = __instancecheck__ = __subclasscheck__ = __getattr__ = __eq__ = trap("meta")
    __hash__ = type.__hash__

def zoo_class(name, *bases):
    return type.__new__(Meta if not bases else type, name, bases, dict(traps))

Hostile = zoo_class("Hostile")
hostile = object.__new__(Hostile)
class Slots:
    __slots__ = ("a", "never")
    __getattribute__ = trap("__getattribute__")
slots = object.__new__(Slots)
Slots.__dict__["a"].__set__(slots, [1])
sub_list = list.__new__(zoo_class("SubList", list)); list.extend(sub_list, [1, hostile])
sub_dict = dict.__new__(zoo_class("SubDict", dict)); dict.__setitem__(sub_dict, "k", hostile)
sub_str = str.__new__(zoo_class("SubStr", str), "text " * 3)
sub_bytes = bytes.__new__(zoo_class("SubBytes", bytes), b"bytes")
sub_int = int.__new__(zoo_class("SubInt", int), 7)
sub_tuple = tuple.__new__(zoo_class("SubTuple", tuple), (1, 2))
sub_set = frozenset.__new__(zoo_class("SubSet", frozenset), ["a"])
itself = []; itself.append(itself)
class Key:
    def __init__(self): self.ready = True
    def __hash__(self):
        if not self.ready: touched.append("hash"); raise TypeError("no longer")
        return hash("k")
    def __eq__(self, other): touched.append("eq"); return True
key = Key(); no_longer = {key: 1, "other": 2}; key.ready = False
records = [{"a": hostile, "b": 1}, {"a": 2, "c": sub_str}]
def finished():
    yield 1
generator = finished(); list(generator)
running = finished(); next(running)
closed = open("/dev/null"); closed.close()
released = memoryview(bytearray(b"abc")); released.release()
buffer = io.BytesIO(b"abc")
lock = threading.Lock()
thread = threading.current_thread()
many = dict.fromkeys(range(100_000))
deep = []
for _ in range(10_000): deep = [deep]
bigger = 10 ** 5000
endless = range(10 ** 30)
@dataclasses.dataclass
class Point:
    x: int
    hidden: object = dataclasses.field(repr=False, default=None)
point = Point(1, hostile)
Named = collections.namedtuple("Named", "first second"); named_tuple = Named(1, hostile)
class Colour(enum.Enum): RED = 1
colour = Colour.RED
deque = collections.deque([1, hostile]); ordered = collections.OrderedDict(a=hostile); counter = collections.Counter("abc")
default = collections.defaultdict(trap("factory"), a=1)
names = {"数": 1, "[bold]": 2, "\\x1b]0;x\\x07": 3, "\\udc80": 4}
数 = "name"
module = type(sys)("made"); module.__dict__["x"] = hostile; module.__getattr__ = trap("module")
function = lambda x=hostile, *, y: x
function.__wrapped__ = hostile
bound = point.__init__
partial = __import__("functools").partial(function, hostile)
error = ValueError(hostile)
weak = __import__("weakref").proxy(point)
view = {1: hostile}.items()
ellipsis = ...
'''
)

STATE = """
import json
def state(value):
    base = next((base for base in (list, dict, tuple, str, bytes, frozenset) if any(one is base for one in type.mro(type(value)))), None)
    return [id(value), id(type(value)), base.__len__(value) if base else 0]
print(json.dumps({name: state(value) for name, value in list(globals().items()) if name in NAMES}))
"""

NAMES = (
    "hostile Hostile slots sub_list sub_dict sub_str sub_bytes sub_int sub_tuple sub_set itself no_longer key records generator running closed released "
    "buffer lock thread many deep bigger endless point Point named_tuple colour Colour deque ordered counter default names 数 module function bound "
    "partial error weak view ellipsis"
).split()


@pytest.fixture(scope="module")
def zoo() -> Iterator[Looking]:
    with looking() as inspection:
        inspection.run(ZOO)
        yield inspection


def look_everywhere(look: InspectorClient, path: ObjectPath, opened: InspectedObject) -> None:
    """Send every request that must run no code of the object."""
    look.children(path, 0, 50)
    if "table" in opened.views:
        columns = range(opened.columns)
        look.headings(path, columns)
        look.rows(path, 0, 100, columns, TableArrangement())
        for column in columns:
            look.figures(path, column)
            for condition in ("missing", "a", "> 1"):
                look.rows(
                    path, 0, 100, columns, TableArrangement((column, True), ((column, condition),))
                )
    if "text" in opened.views:
        look.text(path, 0, 100)
        look.find(path, "needle", 0, backwards=False)
    if "source" in opened.views:
        look.source(path)


def state(zoo: Looking) -> dict[str, list[int]]:
    result = zoo.cells.run(STATE.replace("NAMES", repr(NAMES)))
    counts: dict[str, list[int]] = json.loads(result.output)
    return counts


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", NAMES)
def test_inspecting_runs_no_object_code_and_changes_nothing(zoo: Looking, name: str) -> None:
    zoo.run("touched.clear()")
    state_before = state(zoo)
    opened = zoo.open(name)
    assert opened.views
    look_everywhere(zoo.look, named(name), opened)
    children = zoo.look.children(named(name), 0, 20).children
    for child in children:
        if child.state == "":
            path = (*named(name), child.step)
            look_everywhere(zoo.look, path, zoo.look.open(path))
    assert zoo.cells.run("print(touched)").output == "[]\n"
    assert state(zoo) == state_before


def test_ten_thousand_nested_levels_can_be_walked(zoo: Looking) -> None:
    path = (*named("deep"), *(["item", 0] for _ in range(9_999)))
    assert zoo.look.open(path).summary == "1 item"
    assert zoo.look.open((*path, ["item", 0])).summary == "0 items"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("while True: pass", "The property p did not end within 2 s."),
        ("raise SystemExit('bye')", "The property p raised SystemExit: bye"),
        ("raise hostile_error", "The property p raised Evil."),
    ],
    ids=["endless", "exits", "evil"],
)
def test_misbehaving_property_gives_one_sentence(zoo: Looking, code: str, message: str) -> None:
    zoo.run(
        "class Evil(Exception):\n    def __str__(self): raise SystemExit\nhostile_error = Evil()"
    )
    zoo.run(f"class P:\n    @property\n    def p(self):\n        {code}\nbad = P()")
    with pytest.raises(KernelError) as raised:
        zoo.look.evaluate(named("bad"), "p")
    assert str(raised.value) == message


def test_dict_changing_during_inspection_is_shown_or_refused(zoo: Looking) -> None:
    zoo.run(
        "import threading\nchanging = dict.fromkeys(range(1000))\nstop = False\ndef change():\n    n = 0\n    while not stop:\n        changing[n := n + 1] = changing.pop(n - 1, 0)\nt = threading.Thread(target=change, daemon=True); t.start()"
    )
    try:
        for start in range(0, 900, 100):
            with contextlib.suppress(KernelError):
                assert len(zoo.look.children(named("changing"), start, start + 100).children) <= 100
    finally:
        zoo.run("stop = True; t.join()")


def test_inspection_works_while_a_cell_runs(zoo: Looking) -> None:
    zoo.run(
        "import threading\nclass Gate:\n    go = threading.Event()\n    @property\n    def opened(self): self.go.set()\ngate = Gate()"
    )
    waits = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        cell = pool.submit(
            zoo.cells.run_until,
            "waiting",
            waits.set,
            "print('waiting', flush=True); gate.go.wait(30)",
        )
        assert waits.wait(PATIENCE)
        assert zoo.open("many").summary == "100,000 items"
        assert zoo.open("many", ["item", 99_999]).type == "NoneType"
        zoo.look.evaluate(named("gate"), "opened")
        assert cell.result().output.endswith("True\n")


def test_inspection_imports_none_of_the_big_libraries() -> None:
    with looking() as bare:
        bare.run(
            "import sys\nthings = [{'a': 1}, {'a': 2}]\ntext = 'x'\nraw = b'\\x89PNG'\ndef f(): pass"
        )
        for name in ("things", "text", "raw", "f", "sys"):
            opened = bare.open(name)
            look_everywhere(bare.look, named(name), opened)
        big = set("pandas polars numpy pyarrow torch matplotlib PIL".split())
        assert bare.cells.text(f"{big} & {{*sys.modules}}") == "set()\n"


@pytest.fixture(scope="module")
def odd() -> Iterator[Looking]:
    with looking() as inspection:
        inspection.run("import numpy as np, pandas as pd, polars as pl, pyarrow as pa, decimal")
        yield inspection


@pytest.mark.thorough
def test_objects_with_very_many_attributes_are_listed_in_time(odd: Looking) -> None:
    odd.run(
        "class Many: pass\nmany = Many(); many.__dict__.update((f'a{n}', n) for n in range(50_000))"
    )
    odd.run(
        "for n in range(2_000): setattr(Many, f'p{n}', property(lambda self: 1))\nmany.__dict__[7] = 'no name'\nall_of_them = [many] * 100"
    )
    assert odd.look.children(named("all_of_them"), 0, 100).children[99].count == 52_000
    page = odd.look.children(named("many"), 51_999, 52_000)
    (last_child,) = page.children
    assert (page.count, last_child.label, last_child.state) == (52_000, "p1999", "property")


def test_dicts_with_very_many_keys_are_not_columns(odd: Looking) -> None:
    odd.run(
        "wide, wider = [dict.fromkeys(map(str, range(5_000)))], [dict.fromkeys(map(str, range(5_001)))]"
    )
    odd.run("apart = [{str(n * 2_000 + k): 1 for k in range(2_000)} for n in range(3)]")
    views = [odd.open(name).views[0] for name in ("wide", "wider", "apart")]
    assert views == ["table", "tree", "tree"]


@pytest.mark.parametrize(
    ("value", "view"),
    [
        ("b'BMW 3 series'", "repr"),
        ("b'BM' + bytes(4) + bytes(4) + b'rest'", "picture"),
        ("bytearray(b'GIF89a')", "picture"),
        ("np.array(['a', 'bb'], dtype=np.dtypes.StringDType())", "table"),
        ("np.array([(1, (2, 3))], dtype=[('a', int), ('b', [('c', int), ('d', int)])])", "table"),
        ("pd.period_range('2026', periods=3, freq='M')", "table"),
        ("pd.interval_range(0, 3)", "table"),
        ("np.array(5)", "repr"),
        ("np.zeros((0, 5))", "array"),
    ],
)
def test_rare_types_open(odd: Looking, value: str, view: str) -> None:
    odd.run(f"rare = {value}")
    opened = odd.open("rare")
    assert opened.views[0] == view
    if view == "table":
        odd.table("rare", *range(opened.columns))
        odd.figures("rare", 0)


@pytest.mark.parametrize(
    ("value", "drawn"),
    [
        ("np.array([1, 2])", True),
        ("np.array([1 + 2j])", False),
        ("pd.Series([1 + 2j])", False),
        ("pd.date_range('2026', periods=3).to_numpy()", False),
        ("pd.Series([1, None], dtype='Int64')", True),
        ("pa.chunked_array([[decimal.Decimal('1.5'), None]])", True),
        ("pl.Series([decimal.Decimal('1.5'), None])", True),
        ("pl.Series(['a'])", False),
        ("pd.Series([1, 2], dtype='int64[pyarrow]')", True),
    ],
)
def test_only_numbers_are_plotted(odd: Looking, value: str, drawn: bool) -> None:
    odd.run(f"numbers = {value}")
    assert ("plot" in odd.open("numbers").views) is drawn
    if drawn:
        assert odd.look.plot(named("numbers"), "line", 20, 20).ys[0] in (1, 1.5)
        assert sum(odd.look.plot(named("numbers"), "histogram", 20, 20).ys) in (1, 2)
    else:
        with pytest.raises(KernelError, match="no numbers to plot"):
            odd.look.plot(named("numbers"), "line", 20, 20)


@pytest.mark.parametrize("numbers", ["[5e17] * 2", "[5e17, 5e17 + 64]", "[1.0, 1.0 + 2.3e-16]"])
def test_numbers_too_close_for_a_histogram_are_told(odd: Looking, numbers: str) -> None:
    odd.run(f"numbers = np.array({numbers})")
    with pytest.raises(KernelError, match="too close to each other for a histogram"):
        odd.look.plot(named("numbers"), "histogram", 20, 20)
    assert len(odd.look.plot(named("numbers"), "line", 20, 20).ys) == 2


def test_numbers_with_an_infinite_distance_are_not_plotted(odd: Looking) -> None:
    odd.run("numbers = np.array([-1.7e308, 2, 1.7e308, np.inf, np.nan]); many = numbers.repeat(40)")
    assert odd.look.plot(named("numbers"), "line", 20, 20).ys == (2,)
    assert odd.look.plot(named("many"), "line", 20, 20).ys.count(2) > 1
    assert set(odd.look.plot(named("many"), "line", 20, 20).ys) == {2}
    assert sum(odd.look.plot(named("many"), "histogram", 20, 20).ys) == 40
    odd.run("grid = numbers.reshape(1, 5)")
    assert odd.look.plot(named("grid"), "line", 20, 20).grid == ((None, 2, None, None, None),)


def test_all_numbers_of_a_large_array_in_columns_are_counted(odd: Looking) -> None:
    odd.run("tall = np.zeros((5_001, 10_001), dtype='i1', order='F'); tall[5_000, :] = 7")
    assert odd.figures("tall").max == "7"
    odd.run("tall = np.zeros((5_001 * 2, 10_001), dtype='i1')[::2]")
    with pytest.raises(KernelError, match="is not contiguous"):
        odd.figures("tall")
    odd.run("tall = np.arange(10)[::3]")
    assert odd.figures("tall").max == "9"


def test_a_module_whose_file_is_a_pipe_is_not_read(odd: Looking) -> None:
    odd.run(
        "import os, tempfile, types\npipe = types.ModuleType('pipe'); pipe.__file__ = tempfile.mkdtemp() + '/x.py'; os.mkfifo(pipe.__file__)"
    )
    source = odd.look.source(named("pipe"))
    assert (source.source, source.where.endswith("x.py")) == ("", True)


def test_custom_version_class_is_read_without_running_its_code(odd: Looking) -> None:
    odd.run(
        "import types\nclass Version(str):\n    def __str__(self): asked.append(1)\n    __len__ = __iter__ = isprintable = __str__\nasked = []"
    )
    odd.run(
        "own = types.ModuleType('own'); own.__version__ = Version('2.13.0+cpu'); number = types.ModuleType('number'); number.__version__ = 3"
    )
    signatures = [odd.look.source(named(name)).signature for name in ("own", "number")]
    assert signatures == ["version 2.13.0+cpu", ""]
    summaries = {variable.name: variable.summary for variable in odd.cells.kernel.variables()}
    assert [summaries[name] for name in ("own", "number", "asked")] == ["2.13.0+cpu", "", "0 items"]


def test_late_property_value_is_dropped_after_its_screen_closes() -> None:
    with looking() as inspection:
        inspection.run("import threading, weakref")
        inspection.run(
            "class Slow:\n    @property\n    def p(self):\n        begun.set(); closed.wait(1.5); made.add(found := Slow()); return found\nslow = Slow()"
        )

        def was_late() -> bool:
            """Close the screen while the property runs; return whether its value came later."""
            inspection.run(
                "begun, closed, made = threading.Event(), threading.Event(), weakref.WeakSet()"
            )
            look = InspectorClient(inspection.cells.kernel)
            with ThreadPoolExecutor(1) as pool:
                evaluation = pool.submit(look.evaluate, named("slow"), "p")
                inspection.run("begun.wait(30)")
                look.close()
                inspection.run("closed.set()")
                error = evaluation.exception()
            return "No one is waiting for this answer" in str(error)

        wait_for(was_late)
        assert inspection.cells.run("print(len(made))").output == "0\n"


@pytest.mark.parametrize("condition", ["> 5 bananas", "> 99999999999999999999999999 s", "= soon"])
def test_unreadable_timedelta_condition_is_refused(odd: Looking, condition: str) -> None:
    odd.run("spans = pd.to_timedelta([1, 2], unit='h').to_numpy()")
    with pytest.raises(KernelError, match="cannot be compared with values of timedelta64"):
        odd.table("spans", 0, c0=condition)


def test_sorting_emits_no_warnings(odd: Looking) -> None:
    odd.run(
        "import warnings; warned = []; warnings.showwarning = lambda *about: warned.append(about); warnings.simplefilter('always')"
    )
    odd.run("t = pa.table({'a': [2.0, None, float('nan'), 1.0]})")
    assert odd.table("t", sort=(0, True)).positions == (0, 3, 2, 1)
    assert odd.cells.run("print(warned)").output == "[]\n"


@pytest.mark.thorough
def test_docstring_of_any_length_is_truncated(odd: Looking) -> None:
    odd.run("def f(): pass\nf.__doc__ = 'x' * 300_000_000")
    assert len(odd.look.source(named("f")).doc) == 400_000
