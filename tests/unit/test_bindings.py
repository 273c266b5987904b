"""The names on which a call depends."""

from __future__ import annotations

import json
from typing import Any
from xml.dom import minidom

import pytest

from mahtab_tui.worker.guard.bindings import MAX_ITEMS, MAX_OBJECTS, names_read

READS = {
    "def f(x): return helper(x)": "f helper",
    "def f(x): return x.helper()": "f",
    "def f(helper): return helper": "f",
    "def f(x): return [helper(y) for y in x]": "f helper",
    "def f(x):\n    def g(): return helper\n    return g": "f helper",
    "def f(x): return (lambda: helper)()": "f helper",
    "def f(x):\n    class A: a = helper\n    return A": "f helper",
    "def f(x): return g(x)\ndef g(x): return helper(x)": "f g helper",
    "def f(x): return g(x)\ndef g(x): return f(x)": "f g",
    "def g(): return helper\ndef f(x, run=g): return run()": "f g helper",
    "def g(): return helper\ndef f(x, *, run=g): return run()": "f g helper",
    "def wrap(function): return lambda: function()\nf = wrap(lambda: helper)": "f helper",
    "import functools\nf = functools.partial(lambda x: helper, 1)": "f helper",
    "import functools\n@functools.lru_cache\ndef f(x): return helper": "f helper",
    "class f:\n    def __init__(self): helper()": "f helper",
    "class f:\n    @staticmethod\n    def g(): helper()": "f helper",
    "class f:\n    @property\n    def g(self): return helper": "f helper",
    "class g:\n    def run(self): helper()\nf = g()": "f g helper",
    "class g:\n    def run(self): helper()\nclass f(g): pass": "f g helper",
    "class g(dict):\n    def __getitem__(self, key): return helper\nf = g()": "f g helper",
    "f = {'a': [lambda: helper]}": "f helper",
    "import dataclasses\ng = dataclasses.make_dataclass('g', [], namespace={'m': lambda self: helper})\n"
    "def f(): return g().m()": "f g helper",
    "import types\ng = types.new_class('g', exec_body=lambda names: names.update(m=lambda: helper))\n"
    "def f(): return g().m()": "f g helper",
    "class g:\n    __module__ = 'json'\n    def m(self): helper\ndef f(): return g().m()": "f g helper",
    "class g:\n    __module__ = 'json'\n    m = [lambda: helper]\ndef f(): return g.m": "f g helper",
    "from json import JSONDecoder\ndef f(x): return JSONDecoder().decode(x)": "JSONDecoder f",
    "import json\ndef f(x): return json.dumps(x)": "f json",
    "import json\nhelper = 1\nf = json.dumps": "f",
    "helper = ()\ndef f(): return ()": "f",
    "def f(x): eval('helper')": "eval f",
    "f = 1": "f",
    "": "f",
}


def read(source: str) -> list[str]:
    """Return the sorted names on which a call of `f` in this code depends."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(source, namespace)
    # The body of a class reads `__name__`.
    return sorted({*names_read(namespace, "f")["names"]} - {"__name__"})


def is_complete(source: str) -> bool:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(source, namespace)
    return names_read(namespace, "f")["is_complete"]


@pytest.mark.parametrize(("source", "names"), READS.items())
def test_names_are_found_that_a_call_reads(source: str, names: str) -> None:
    assert read(source) == names.split()


@pytest.mark.parametrize(
    "member",
    [
        "lambda self: helper",
        "property(lambda self: helper)",
        "staticmethod(functools.partial(lambda: helper))",
        "functools.lru_cache(lambda self: helper)",
        "functools.cached_property(lambda self: helper)",
        "contextlib.contextmanager(lambda self: helper)",
        "Mine()",
    ],
)
@pytest.mark.parametrize("code", ["json.JSONDecoder().hook()", "decoder.hook()", "json.hook()"])
def test_the_users_part_in_a_library_is_looked_at(
    member: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = json if code.startswith("json.hook") else json.JSONDecoder
    source = f"""
import contextlib, functools, json
class Mine:
    def __call__(self): helper
def f(): {code}
member = {member}
"""
    namespace: dict[str, Any] = {"__name__": "__main__", "decoder": json.JSONDecoder()}
    exec(source, namespace)
    monkeypatch.setattr(owner, "hook", namespace.pop("member"), raising=False)
    report = names_read(namespace, "f")
    assert "helper" in report["names"]
    assert report["is_complete"]


@pytest.mark.parametrize(
    "source",
    [
        "import xml.dom.minidom\ndef f(): xml.dom.minidom.parse()",
        "import xml.dom as dom\ndef f(): dom.minidom.parse()",
        "import xml.dom\ndef f(): return [xml.dom.minidom.parse() for _ in 'a']",
        "import xml.dom\ndef f():\n    minidom = xml.dom.minidom\n    return minidom.parse",
        "import xml.dom\ndef g(): xml.dom.minidom.parse()\ndef f(): g()",
        "import xml.dom\nclass f:\n    def g(self): xml.dom.minidom.parse()",
        "import xml.dom\ndef f(dom=xml.dom): dom.minidom.parse()",
        "import types, xml.dom\ng = types.SimpleNamespace(m=xml.dom)\ndef f(): g.m.minidom.parse()",
        "import xml.dom\ndef g(): pass\ndef f(): xml.dom, g, h()\ndef h(): f.minidom",
        "def f():\n    import xml.dom.minidom\n    xml.dom.minidom.parse()",
        "def f():\n    import xml.dom.minidom as other\n    other.parse()",
        "def f():\n    from xml.dom import minidom\n    minidom.parse()",
        "def f():\n    from xml.dom.minidom import parse\n    parse()",
    ],
)
def test_modules_in_modules_are_looked_at(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(f"def evil(): pass\n{source}", namespace)
    assert "evil" not in names_read(namespace, "f")["names"]
    monkeypatch.setattr(minidom, "parse", namespace["evil"])
    report = names_read(namespace, "f")
    assert "evil" in report["names"]
    assert report["is_complete"]


def test_a_function_of_many_names_is_read_completely() -> None:
    names = [f"name{number:04}" for number in range(1_000)]
    assert read(f"def f(): {'; '.join(names)}") == ["f", *names]


@pytest.mark.parametrize(
    "source",
    [
        "f = [*range(100_000), lambda: helper]",
        "f = {**dict.fromkeys(range(50_000)), 'last': lambda: helper}",
        "f = [*([row] for row in range(50_000)), [lambda: helper]]",
        "import numpy\nf = numpy.array([None, lambda: helper])",
        "import pandas\nf = pandas.Series([*range(50_000), lambda: helper])",
    ],
)
def test_long_containers_of_data_are_looked_at_completely(source: str) -> None:
    assert read(source) == ["f", "helper"]
    assert is_complete(source)


@pytest.mark.parametrize(
    "source",
    [
        f"f = list(range({MAX_ITEMS + 1}))",
        f"f = [lambda: None for _ in range({MAX_OBJECTS})]",
        "import numpy\nf = numpy.zeros(1, [('a', object)])",
    ],
)
def test_objects_that_are_not_looked_at_are_said(source: str) -> None:
    assert not is_complete(source)


def test_no_code_of_the_objects_runs() -> None:
    source = """
def fail(*args): raise AssertionError
class Meta(type):
    __getattribute__ = __call__ = __eq__ = __iter__ = fail
    __hash__ = None
class f(dict, metaclass=Meta):
    __getattribute__ = __getattr__ = __iter__ = __len__ = __eq__ = fail
    __hash__ = None
    def run(self): helper()
f = [type.__call__(f)]
"""
    assert "helper" in read(source)


def test_code_that_python_did_not_compile_is_read_in_linear_time() -> None:
    source = """
import opcode
def f(): helper
code = f.__code__.co_code
start = code.index(opcode.opmap["LOAD_GLOBAL"])
long_argument = bytes((opcode.EXTENDED_ARG, 255)) * 500_000
f.__code__ = f.__code__.replace(co_code=code[:start] + long_argument + code[start:])
"""
    assert read(source) == ["f"]
