"""Completions from the live namespace, without running anything of it."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import functools
import importlib
import json
import re
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mahtab_tui.worker.completion.annotation_texts import format_annotation
from mahtab_tui.worker.completion.complete import complete
from mahtab_tui.worker.completion.ranking import MAX_COMPLETIONS
from mahtab_tui.worker.completion.signatures import format_signature
from mahtab_tui.worker.completion.source_code import find_source
from tests.tables import rows

NAMED = r"""
poi | point
x = poi | point
f'{poi | point
f'{{}} {point.le | length
point.u | unit
point.moved(1).mo | moved
Point(1).mo | moved
Colour.R | RED
[1].ap | append
(point).le | length
sys.versio | version_info
nested['outer'][' | inner
nested[ | 7
ordered['f | first
df[' | unit price
df[['price', 'u | unit price
df.grö | größe
Point(1, la | label=
point.moved(1, side | sideways=
Ship(cap | captain=
decorated(1, ga | gamma=
part(ga | gamma=
plain(1,\n      ga | gamma=
import json, coll | collections
from json import (load,\n  du | dumps
from email import mi | mime
import xml.do | dom
whil | while
alpha_beta = 1\nalp | alpha_beta
pnt | point
POI | point
"""

TABLE = r"""
df.city.str.con | contains
df['city'].str.up | upper
df.when.dt.ye | year
df.kind.cat.cod | codes
df.plot.ba | bar
city.str.split(',').str.ge | get
df.groupby('city').pri | price
df.groupby('city').ag | agg
df.groupby('city').price.me | mean
df.groupby('city')['price'].med | median
df.groupby('ci | city
df.groupby('city').mean().sort_v | sort_values
df[df.price > 1].pri | price
df.head().ci | city
df.head()['pr | price
df.sort_values('price').to_cs | to_csv
df.loc[0].ind | index
df.loc[:, 'city'].str.lo | lower
df.iloc[:3].pri | price
df.columns.str.lo | lower
df.index.dt | dtype
df.price.mean().is_ | is_integer
df.city.value_counts().he | head
df.rolling(2).me | mean
df.to_csv('x', ind | index=
pd.read_csv('x', par | parse_dates=
pd.read_csv('x').gro | groupby
pd.concat([df]).hea | head
pd.to_datetime(df.city).dt.mon | month
df.merge(df, ho | how=
pf.filter(pl.col('city').str.ends | ends_with
pf['city'].str.to_up | to_uppercase
pf.lazy().coll | collect
pf['ci | city
np.arange(3).resh | reshape
np.linspace(0, 1, nu | num=
np.zeros(3).T.as | astype
plt.figure().savef | savefig
fig, ax = plt.subplots()\nfig.savef | savefig
json.dumps(data, ind | indent=
re.match('a', text).gr | group
re.compile('a').fullm | fullmatch
datetime.datetime.now().strf | strftime
collections.Counter(text).most | most_common
text.split(',')[0].up | upper
text.upper().sp | split
path.parent.ex | exists
path.read_text().spl | split
(path / 'a').is_fil | is_file
open('x').readl | readline
with open('x') as file:\n    file.readl | readline
data['a']['b'].app | append
data[' | a
user.title.up | upper
user.friend().na | name
User('x').ta | tags
items[-1].fri | friend
send('x', ret | retries=
send('x')[0].up | upper
sorted([1], rev | reverse=
print(1, se | sep=
max(1, ke | key=
int('1', ba | base=
import csv\ncsv.DictR | DictReader
new = df.head()\nnew.pri | price
rows = text.split()\nrows[0].low | lower
df.__len | __len__
from pandas import DataF | DataFrame
"""
"""Code, and the completion that must come first."""


Item = TypeVar("Item")
AnyBox = TypeVar("AnyBox", bound="Box[Any]")


class Bomb(BaseException):
    """Raised by the hostile classes when their code runs."""


def boom(*args: Any, **kwargs: Any) -> Any:
    raise Bomb


HOSTILE = dict.fromkeys(
    (
        "__repr__ __str__ __len__ __getattr__ __getattribute__ __eq__ __hash__ __bool__ __iter__"
        " __dir__ __getitem__ __call__ __instancecheck__ keys items"
    ).split(),
    boom,
)
HostileMeta = type(
    "HostileMeta", (type,), {"__getattribute__": boom, "__dir__": boom, "__instancecheck__": boom}
)


def hostile_class(*bases: type) -> Any:
    members = {
        **HOSTILE,
        "__class__": property(boom),
        "__dict__": property(boom),
        "danger": property(boom),
        "harmless": 1,
    }
    return HostileMeta("Hostile", bases, members)


def labels(namespace: dict[str, Any], code: str) -> list[str]:
    return [item["label"] for item in complete(namespace, code, len(code))["items"]]


class Point:
    """A point."""

    unit = "m"

    def __init__(self, x: int, y: int = 0, *, label: str = "") -> None:
        self.x = x
        self.y = y

    @property
    def length(self) -> float:
        """How far from zero."""
        raise Bomb

    def moved(self, by: int, sideways: int = 0) -> Point:
        return self

    def _secret(self) -> None: ...


class Box(Generic[Item]):
    def __init__(self, item: Item) -> None:
        self.item = item

    def get(self) -> Item:
        return self.item

    def opened(self: AnyBox) -> AnyBox:
        return self

    @classmethod
    def packed(cls: type[AnyBox]) -> AnyBox:
        raise Bomb

    def first_of(self: Box[Item]) -> Item:
        raise Bomb

    def unknown(self) -> Unknown[int]:  # type: ignore[name-defined]  # noqa: F821
        raise Bomb


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Ship:
    captain: str
    crew: int = 3


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def plain(alpha: int, /, beta: int, *numbers: int, gamma: int = 1, **options: int) -> None: ...


NAMESPACE: dict[str, Any] = {
    "point": Point(1),
    "Point": Point,
    "Colour": Colour,
    "Ship": Ship,
    "plain": plain,
    "decorated": wrapped(plain),
    "part": functools.partial(plain, 1),
    "nested": {"outer": {"inner": 1}, 7: "seven", ("a",): 0},
    "items": [Point(1)],
    "box": Box(1),
    "Box": Box,
    "ordered": collections.OrderedDict(first=1),
    "df": pd.DataFrame({"price": [1], "unit price": [2], "größe": [3]}),
    "_hidden": 1,
    "sys": sys,
}


@pytest.mark.parametrize(("code", "label"), [*rows(NAMED), ("point\\\n.le", "length")])
def test_completions_match_the_table(code: str, label: str) -> None:
    assert label in labels(NAMESPACE, code)


class User:
    """A class of the user's; nothing of it may run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tags = ["a"]

    @property
    def title(self) -> str:
        raise SystemError

    def friend(self) -> User:
        raise SystemError


def send(text: str, *, retries: int = 1) -> list[str]:
    raise SystemError


@pytest.fixture(scope="module")
def table_names() -> dict[str, Any]:
    df = pd.DataFrame({"city": ["a"], "price": [1.5]})
    df["when"] = pd.to_datetime(["2020-01-01"])
    df["kind"] = pd.Categorical(["x"])
    modules = {"np": np, "pd": pd, "pl": pl, "plt": plt, "re": re, "json": json}
    modules |= {"datetime": datetime, "collections": collections}
    tables = {"df": df, "city": df["city"], "pf": pl.DataFrame({"city": ["a"]})}
    plain = {"text": "a,b", "path": Path(), "data": {"a": {"b": [1]}}}
    users = {"user": User("x"), "items": [User("y")], "User": User, "send": send}
    return {**modules, **tables, **plain, **users}


@pytest.mark.parametrize(("code", "label"), rows(TABLE))
def test_best_completion_comes_first(table_names: dict[str, Any], code: str, label: str) -> None:
    assert labels(table_names, code)[0] == label


def test_columns_of_polars_and_unasked_underscores_are_not_listed() -> None:
    namespace = {"nothing": object(), "point": Point(1), "pf": pl.DataFrame({"city": ["a"]})}
    assert "city" not in labels(namespace, "pf.")
    assert labels(namespace, "nothing.") == []
    assert labels(namespace, "point._")[0] == "_secret"
    assert "__class__" in labels(namespace, "point._")
    assert labels(namespace, "point.__")[0].startswith("__")


@pytest.mark.parametrize(
    "code",
    (
        "# poi|x = 1  # poi|def poi|class poi|import json as poi|1.|12poi|'poi|'''\npoi|unknown."
        "|unknown().x|poi."
    ).split("|"),
)
def test_no_completion_where_names_do_not_apply(code: str) -> None:
    assert "point" not in labels({"point": 1}, code)


def test_member_of_an_unloaded_module_is_found_without_importing_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "lonely_module.py").write_text(
        "raise SystemExit\nanswer = 42\ndef question(): ...\nclass Doubt: ...\n", "utf-8"
    )
    monkeypatch.syspath_prepend(project)
    assert "lonely_module" in labels({}, "import lonely_m")
    assert labels({}, "from lonely_module import ")[:3] == ["answer", "Doubt", "question"]
    assert "lonely_module" not in sys.modules


def test_files_are_completed_in_strings(project: Path) -> None:
    (project / "data.csv").write_text("", "utf-8")
    (project / "deep folder").mkdir()
    (project / "deep folder" / "more.csv").write_text("", "utf-8")
    (project / ".hidden").write_text("", "utf-8")
    assert labels({}, "open('d") == ["data.csv", "deep folder/"]
    completions = complete({}, "open('deep folder/m", 19)
    assert (completions["start"], completions["items"][0]["text"]) == (18, "more.csv'")
    assert labels({}, "open('.h") == [".hidden"]
    texts = [item["text"] for item in complete({}, "open('d')", 7)["items"]]
    assert texts == ["data.csv", "deep folder/"]


def test_exact_matches_come_first_then_prefixes_then_subsequences() -> None:
    namespace = dict.fromkeys(("_pot", "__pot", "spot", "pot", "potato", "Potter", "p_o_t"), 1)
    matching_names = [name for name in labels(namespace, "pot") if name in namespace]
    assert matching_names == ["pot", "potato", "Potter", "spot", "p_o_t"]


def test_private_names_are_listed_after_an_underscore() -> None:
    namespace = dict.fromkeys(("_grow", "group", "a_grown"), 1)
    assert labels(namespace, "gro")[:2] == ["group", "a_grown"]
    assert "_grow" not in labels(namespace, "gro")
    assert labels(namespace, "_g")[0] == "_grow"
    completions = complete(namespace, "gro", 3)
    assert (len(completions["items"]), completions["more"]) == (len(labels(namespace, "gro")), 0)
    completions = complete({f"name{i}": i for i in range(1_000)}, "name", 4)
    assert (len(completions["items"]), completions["more"] >= 800) == (MAX_COMPLETIONS, True)


def test_a_function_is_listed_with_all_its_parameters() -> None:
    def inner(by: int, *, axis: int = 0) -> None: ...

    @functools.wraps(inner)
    def decorated(*args: object, **options: object) -> None: ...

    def gather(first: int, *numbers: int, sep: str = "", **options: int) -> None: ...

    items = complete({"decorated": decorated, "gather": gather}, "", 0)["items"]
    described = {item["label"]: item["doc"] for item in items}
    assert described["decorated"] == "(by, *, axis)"
    assert described["gather"] == "(first, *numbers, sep, **options)"


def test_keyword_arguments_come_before_names_and_not_within_an_argument() -> None:
    assert labels(NAMESPACE, "Point(")[:3] == ["label=", "x=", "y="]
    assert "label=" not in labels(NAMESPACE, "Point(1 + ")
    assert "label=" not in labels(NAMESPACE, "Point(1); print(")
    assert "label=" not in labels(NAMESPACE, "[Point(1), ")
    assert "self=" not in labels(NAMESPACE, "point.moved(")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("nested['ou", "outer'"),
        ('nested["ou', 'outer"'),
        ("nested[", "'outer'"),
        ('df["""un', 'unit price"""'),
    ],
)
def test_completed_key_includes_its_quotes(code: str, text: str) -> None:
    assert text in [item["text"] for item in complete(NAMESPACE, code, len(code))["items"]]


def test_existing_quote_is_not_doubled() -> None:
    completions = complete(NAMESPACE, "nested['ou']", 10)
    assert [(item["label"], item["text"]) for item in completions["items"]] == [("outer", "outer")]
    assert completions["start"] == 8


@example("__", "'")
@example("'\"\ud7fc", "'")
@example("it's", "r'")
@example("a\\", 'R"')
@example("{a}'", "f'")
@given(st.text(), st.sampled_from(["'", '"', "'''", '"""', "r'", 'R"""', "f'", "b'"]))
def test_inserted_key_is_the_right_key(key: str, quote: str) -> None:
    code = f"d[{quote}"
    items = complete({"d": {key: 1}}, code, len(code))["items"]
    assert [eval(quote + item["text"]) for item in items] in ([key], [])
    assert items or quote[0] in "rRb"
    if quote == "r'" and key.isalnum():
        assert items


def test_magics_are_completed_at_the_beginning_of_a_line() -> None:
    assert labels({}, "x = 1\n  %t") == ["tb", "time", "timeit"]
    assert labels({}, "%%tim") == ["time", "timeit"]
    assert "timeit" not in labels({}, "x %t")
    assert "timeit" not in labels({}, "x = (1\n%t")


def test_completions_have_a_kind_and_a_description() -> None:
    items = complete(NAMESPACE, "point.", 6)["items"]
    about = {item["label"]: (item["kind"], item["doc"]) for item in items}
    assert about["length"] == ("property", "How far from zero.")
    assert about["x"] == ("data", "int  1")
    assert about["moved"] == ("function", "(self, by, sideways)")


@pytest.mark.sample(40)
@pytest.mark.parametrize("base", [(), (dict,), (list,), (str,), (types.ModuleType,)])
@pytest.mark.parametrize(
    "code",
    (
        "h|h.|h.dan|h['|h[|h[0].|h(|h.danger.|C.|C(|C().|deep.h.|h.harmless.|d['h'].|(h + h).|(h == 1)."
        "|(-h).|h().|h.keys().|f().|f(h)[0].|C().harmless.|C.danger.|h[h].|h.danger(|sorted(h)."
        "|m.made().|x = h\nx.|with h as x:\n    x.|for x in h:\n    x."
    ).split("|"),
)
def test_hostile_objects_are_not_run(base: tuple[type, ...], code: str) -> None:
    cls = hostile_class(*base)
    maker: Any = base[0] if base else object
    h = maker.__new__(cls)

    def f() -> object: ...

    class Maker:
        def made(self) -> object: ...

    f.__annotations__["return"] = Maker.made.__annotations__["return"] = cls

    deep = types.SimpleNamespace(h=h)
    listed_labels = labels(
        {"h": h, "C": cls, "f": f, "m": Maker(), "deep": deep, "d": {"h": h}}, code
    )
    if code == "h." and not base:
        assert {"danger", "harmless"} <= set(listed_labels)


def test_non_string_names_and_overpromising_modules_are_skipped() -> None:
    module = types.ModuleType("lazy")
    names: dict[Any, Any] = {"__all__": ["promised", 3], "__getattr__": boom, "there": 1, 5: 6}
    module.__dict__.update(names)
    namespace: dict[Any, Any] = {"lazy": module, 4: 5}
    assert labels(namespace, "lazy.")[:2] == ["promised", "there"]


@given(st.text(max_size=80), st.integers(0, 80))
def test_completion_accepts_any_text(code: str, cursor: int) -> None:
    completions = complete(NAMESPACE, code, min(cursor, len(code)))
    assert 0 <= completions["start"] <= min(cursor, len(code))


@given(
    st.lists(
        st.sampled_from([*"poi . ( ) [ ] ' \" f' { } , import from = 3 #".split(), " ", "\n"]),
        max_size=15,
    )
)
def test_completion_accepts_any_pieces_of_code(pieces: list[str]) -> None:
    labels(NAMESPACE, "".join(pieces))


@pytest.mark.parametrize("code", ["box.opened()", "Box.packed()", "box.opened().opened()"])
def test_the_type_variable_of_the_receiver_stands_for_its_type(code: str) -> None:
    assert "opened" in labels(NAMESPACE, f"{code}.")


@pytest.mark.parametrize("code", ["box.get()", "box.first_of()", "box.unknown()"])
def test_other_type_variables_and_unknown_classes_stand_for_no_type(code: str) -> None:
    assert labels(NAMESPACE, f"{code}.") == []


def test_evaluated_annotations_name_the_receivers_type_variable() -> None:
    class Shelf:
        def filled(self): ...  # type: ignore[no-untyped-def]

        def taken(self): ...  # type: ignore[no-untyped-def]

    Shelf.filled.__annotations__.update({"self": AnyBox, "return": AnyBox})
    Shelf.taken.__annotations__.update({"return": Item})
    namespace = {"shelf": Shelf()}
    assert "filled" in labels(namespace, "shelf.filled().")
    assert labels(namespace, "shelf.taken().") == []


@pytest.mark.parametrize(
    ("value", "signature"),
    [
        ("a".upper, "f()"),
        ([].append, "f(object, /)"),
        (dict.fromkeys, "f(iterable, value=None, /)"),
        (len, "f(obj, /)"),
        (int.from_bytes, "f(bytes, byteorder='big', *, signed=False)"),
    ],
)
def test_builtin_signatures_show_what_the_caller_passes(value: object, signature: str) -> None:
    assert format_signature(value, "f") == signature


def test_a_number_that_python_does_not_write_stops_no_explanation() -> None:
    def power(base: int, limit: int = 10**5000) -> int: ...  # type: ignore[empty-body]

    assert format_signature(power, "power") == "power(base: int, limit: int = …) -> int"
    assert labels({"d": {10**5000: 1, 5: 2, "x": 3}}, "d[") == ["'x'", "5"]


def test_a_partial_that_contains_itself_has_no_signature() -> None:
    def power(base: int, exponent: int) -> int: ...  # type: ignore[empty-body]

    partial = functools.partial(power, 2)
    assert format_signature(partial, "f") == "f(exponent: int) -> int"
    partial.__setstate__((partial, (), {}, {}))  # type: ignore[attr-defined]
    assert format_signature(partial, "f").startswith("f: partial")


class Shade(enum.Enum):
    RED = 1


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="annotations are formatted by Python")
@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (typing.Union[Shade, None], "Shade | None"),  # noqa: UP007
        (Shade | None, "Shade | None"),
        (tuple[Shade, ...], "tuple[Shade, ...]"),
        (typing.Callable[[int], Shade], "Callable[[int], Shade]"),
        (typing.Callable[[], Shade], "Callable[[], Shade]"),
        (typing.Callable[..., Shade], "Callable[..., Shade]"),
        (typing.Callable[typing.ParamSpec("P"), Shade], "Callable[~P, Shade]"),
        (collections.abc.Callable[[int, str], Shade], "Callable[[int, str], Shade]"),
        (typing.Literal["a", None, Shade.RED], "Literal['a', None, Shade.RED]"),
        (typing.Literal[10**5000], "Literal[…]"),
        (list[10**5000], "list[int]"),  # type: ignore[misc]
    ],
)
def test_annotations_are_shown_as_they_are_written(annotation: Any, text: str) -> None:
    assert format_annotation(annotation) == text


def test_source_of_a_class_is_that_of_its_qualified_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nodes_of_a_tree.py").write_text(
        "class Outer:\n    class Node:\n        pass\n"
        "def make():\n    class Node:\n        local = 1\n    return Node\n"
        "if True:\n    class Node:\n        top = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("nodes_of_a_tree")
    monkeypatch.delitem(sys.modules, module.__name__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    lines = [
        find_source(cls).location.rpartition(":")[2]
        for cls in (module.Outer.Node, module.make(), module.Node)
    ]
    assert lines == ["2", "5", "9"]


def test_a_class_is_found_whose_methods_are_generated_or_wrapped_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "decorators_of_others.py").write_text(
        "import functools\n"
        "def kept(function):\n"
        "    @functools.wraps(function)\n"
        "    def wrapper(self): return function(self)\n"
        "    return wrapper\n"
    )
    (tmp_path / "decorated_classes.py").write_text(
        "import dataclasses, decorators_of_others\n"
        "@dataclasses.dataclass\nclass Point:\n    x: int\n"
        "class Wrapped:\n    @decorators_of_others.kept\n    def method(self): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("decorated_classes")
    for name in ("decorators_of_others", "decorated_classes"):
        monkeypatch.setitem(sys.modules, name, sys.modules.pop(name))
    file = f"{tmp_path / 'decorated_classes.py'}"
    assert find_source(module.Point).location == f"{file}:2"
    assert find_source(module.Wrapped).location == f"{file}:5"


def test_a_function_whose_file_has_changed_has_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "changed_file.py"
    file.write_text("def f():\n    pass\n")
    namespace: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    file.write_text("x = (\n")
    assert find_source(namespace["f"]) == ("", "")
