"""Undo of what cells set in libraries and modules: those that they load themselves, and those to
which they come by other code than their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.kernels import Cells
from tests.integration.undo import assert_undone
from tests.tables import rows

SETUP = r"""
import contextlib, functools, json, sys, textwrap
from fractions import Fraction
from unittest import mock
def find(module, name):
    return getattr(sys.modules.get(module), name, None)
wrapper = textwrap.TextWrapper()
class Patch:
    def run(self): json.method = 1
    def __call__(self): json.called = 1
patch = Patch()
bound = patch.run
def patch_json(): json.function = 1
partial = functools.partial(setattr, json, 'partial', 1)
def make():
    import json as module
    def inner(): module.closure = 1
    return inner
inner = make()
@contextlib.contextmanager
def decorated():
    json.decorated = 1
    yield
class Base:
    def __init__(self): json.base = 1
    def __enter__(self): json.entered = 1
    def __exit__(self, *error): pass
class Derived(Base): pass
Alias = Derived
entered = Derived.__new__(Derived)
class Properties:
    @property
    def value(self): return 1
    @value.setter
    def value(self, value): json.setter = 1
    @value.deleter
    def value(self): json.deleter = 1
    @functools.cached_property
    def cached(self): json.cached = 1
    @contextlib.contextmanager
    def managed(self):
        json.managed = 1
        yield
    def given(self): json.given = 1
    given_partial = functools.partialmethod(given)
    @functools.singledispatchmethod
    def dispatched(self, value): json.dispatched = 1
properties = Properties()
def make_local():
    class Local:
        def run_local(self): json.local = 1
        def __call__(self): json.local_called = 1
    return Local()
local = make_local()
def with_default(*, function=patch_json): function()
many = functools.partial(lambda *numbers: setattr(json, 'many', 1), *range(40))
"""

LOADED = r"""
import colorsys; colorsys.__dict__['n'] = 1 | find('colorsys', 'n')
import tabnanny; tabnanny.check = 5 | find('tabnanny', 'check') == 5
from sched import scheduler; scheduler.one = 1 | hasattr(find('sched', 'scheduler'), 'one')
import csv; csv.register_dialect('zz', delimiter=';') | 'zz' in (find('csv', 'list_dialects') or list)()
import calendar; calendar.setfirstweekday(3) | (find('calendar', 'firstweekday') or int)() == 3
import mimetypes; mimetypes.add_type('a/b', '.zzz') | '.zzz' in (find('mimetypes', 'types_map') or ())
exec("import quopri; quopri.n = 1") | find('quopri', 'n')
import mine; mine.v = 5; mine.state[1].append(3); mine.K.y = 3; mine.k.z = 4 | [find('mine', 'v'), find('mine', 'state')] == [5, {1: [2, 3]}] or hasattr(find('mine', 'k'), 'z')
"""

REACHED = r"""
type(wrapper).one = 1 | hasattr(textwrap.TextWrapper, 'one')
wrapper.__class__.fill = 1 | textwrap.TextWrapper.fill == 1
Fraction.numerator.__doc__ = 'other' | Fraction.numerator.__doc__
vars(Fraction)['numerator'].__doc__ = 'other' | Fraction.numerator.__doc__
Fraction.limit_denominator.one = 1 | hasattr(Fraction.limit_denominator, 'one')
patch.run() | hasattr(json, 'method')
bound() | hasattr(json, 'method')
patch() | hasattr(json, 'called')
patch_json() | hasattr(json, 'function')
partial() | hasattr(json, 'partial')
inner() | hasattr(json, 'closure')
with decorated(): pass | hasattr(json, 'decorated')
Derived() | hasattr(json, 'base')
Alias() | hasattr(json, 'base')
with entered: pass | hasattr(json, 'entered')
properties.value = 1 | hasattr(json, 'setter')
del properties.value | hasattr(json, 'deleter')
properties.cached | hasattr(json, 'cached')
with properties.managed(): pass | hasattr(json, 'managed')
properties.given_partial() | hasattr(json, 'given')
properties.dispatched(1) | hasattr(json, 'dispatched')
local.run_local() | hasattr(json, 'local')
local() | hasattr(json, 'local_called')
with_default() | hasattr(json, 'function')
many() | hasattr(json, 'many')
exec("import json; json.executed = 1") | hasattr(json, 'executed')
exec(open('script.py').read()) | hasattr(json, 'scripted')
%run script.py | hasattr(json, 'scripted')
%time json.timed = 1 | hasattr(json, 'timed')
sys.modules['json'].quoted = 1 | hasattr(json, 'quoted')
mock.patch('textwrap.dedent', 5).start() | textwrap.dedent == 5
mock.patch('json.decoder.scanner', 5).start() | json.decoder.scanner == 5
mock.patch('json.decoder.JSONDecoder.decode', 5).start() | json.decoder.JSONDecoder.decode == 5
mine.patch_json() | hasattr(json, 'from_module')
"""


@pytest.fixture
def prepared(cells: Cells) -> Cells:
    Path("mine.py").write_text(
        "import json\nv = 1\nstate = {1: [2]}\nclass K: y = 1\nk = K()\ndef patch_json(): json.from_module = 1\n"
    )
    Path("script.py").write_text("import json\njson.scripted = 1\n")
    cells.text(SETUP)
    return cells


def test_what_is_set_in_modules_that_a_cell_loads_is_undone(prepared: Cells) -> None:
    for change, look in rows(LOADED):
        assert_undone(prepared, "one = 1", change, look)


def test_what_other_code_sets_in_libraries_is_undone(prepared: Cells) -> None:
    prepared.text("import mine")
    for change, look in rows(REACHED):
        assert_undone(prepared, "one = 1", change, look)


def test_a_module_that_is_loaded_stays_whole(prepared: Cells) -> None:
    prepared.text("import mine")
    prepared.kernel.undo(prepared.number)
    assert prepared.text("import mine; mine.v, mine.state, mine.K.y") == "(1, {1: [2]}, 1)\n"


@pytest.mark.parametrize(
    "change", ["warnings.filterwarnings('ignore', 'zz')", "del warnings.filters[0]"]
)
def test_a_filter_that_is_set_where_a_library_is_loaded_is_named(
    prepared: Cells, change: str
) -> None:
    prepared.text(f"import mine, warnings; {change}")
    done = prepared.kernel.undo(prepared.number)
    assert [entry.name for entry in done.not_restored] == ["warnings.filters"]
    assert not done.exact


@pytest.mark.parametrize("change", ["w.filters.insert(0, w.filters[-1])", "change('error')"])
def test_a_filter_that_is_set_under_other_names_is_named(prepared: Cells, change: str) -> None:
    prepared.text("import warnings as w; change = w.simplefilter")
    prepared.text(f"import mine; {change}")
    done = prepared.kernel.undo(prepared.number)
    assert ([entry.name for entry in done.not_restored], done.exact) == (
        ["warnings.filters"],
        False,
    )


def test_no_code_of_a_functions_name_runs_when_a_cell_that_mentions_it_is_undone(
    prepared: Cells,
) -> None:
    prepared.text(
        "class Name(str):\n    def __hash__(self):\n        calls.append(1)\n        return 1\n"
        "calls = []\ndef function(): pass\nfunction.__name__ = Name('filters')"
    )
    prepared.text("import mine; function")
    prepared.kernel.undo(prepared.number)
    prepared.expect("calls", "[]\n")


@pytest.mark.parametrize("code", ["filters = [1]", "mine.filters = 1"])
def test_a_library_that_sets_filters_is_undone_exactly_beside_others_of_that_name(
    prepared: Cells, code: str
) -> None:
    prepared.text("import mine")
    prepared.text(f"import numpy; {code}")  # which sets filters of warnings
    done = prepared.kernel.undo(prepared.number)
    assert ([entry.name for entry in done.not_restored], done.exact) == ([], True)


def test_modules_that_wait_to_be_used_are_not_loaded_by_looking(prepared: Cells) -> None:
    # The kernel has loaded what it compares values with.
    prepared.text("numbers = range(3)")
    prepared.text(
        "import importlib.util, sys\n"
        "def wait(name):\n"
        "    spec = importlib.util.find_spec(name)\n"
        "    spec.loader = importlib.util.LazyLoader(spec.loader)\n"
        "    module = sys.modules[name] = importlib.util.module_from_spec(spec)\n"
        "    spec.loader.exec_module(module)\n"
        "    return module\n"
        "waiting = [wait(name) for name in ('csv', 'decimal', 'locale', 'sched', 'colorsys')]\n"
        "csv, decimal, locale, sched, colorsys = waiting"
    )
    kinds_of_modules = "[type(module).__name__ for module in waiting]"
    prepared.text("csv, decimal, locale, sched.scheduler, sys.modules; colorsys.one = 1; x = 1")
    done = prepared.kernel.undo(prepared.number)
    (entry, *_) = [entry for entry in done.not_restored if entry.name == "module sched"]
    assert "only loaded when it was used" in entry.reason
    expected = ["_LazyModule", "_LazyModule", "_LazyModule", "module", "_LazyModule"]
    assert prepared.text(kinds_of_modules) == f"{expected}\n"
    assert (
        prepared.text("sched.scheduler.__name__, hasattr(colorsys, 'one')")
        == "('scheduler', False)\n"
    )


def test_objects_that_only_a_library_has_are_restored_themselves(cells: Cells) -> None:
    cells.text(
        "import json\nclass Item: pass\n"
        "item = json.single = Item(); inner = Item(); json.several = [inner]\n"
        "addresses = id(item), id(inner)"
    )
    cells.text("del json.single, item, inner; json.several.clear()")
    done = cells.kernel.undo(cells.number)
    assert done.exact, done.not_restored
    cells.expect("(id(item), id(inner)) == addresses", "True\n")
    cells.expect("json.single is item, json.several[0] is inner", "(True, True)\n")
