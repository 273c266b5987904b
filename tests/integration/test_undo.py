"""Undo in a kernel process: names and objects are as they were before a cell, and redo goes forward
again."""

from __future__ import annotations

import pytest

from mahtab_tui.kernel.base import KernelError
from tests.integration.kernels import Cells
from tests.integration.undo import kinds, undone


def test_rebound_deleted_and_added_names_are_restored(cells: Cells) -> None:
    done = undone(cells, "a = 1\nb = [1]\nkept = b", "a = 2\ndel b\nc = 3")
    assert kinds(done) == {"a": "rebound", "b": "added", "c": "deleted"}
    assert done.exact
    assert cells.text("a, b, b is kept, 'c' in globals()") == "(1, [1], True, False)\n"


def test_summaries_before_and_after_are_reported(cells: Cells) -> None:
    (change,) = undone(cells, "a = [1]", "a += [2, 3]").changes
    assert change.before is not None
    assert change.variable is not None
    assert (change.change, change.before.summary, change.variable.summary) == (
        "changed",
        "3 items",
        "1 item",
    )


@pytest.mark.parametrize(
    ("setup", "change", "look"),
    [
        ("v = [1, [2], 'x']", "v[1].append(3); v.pop(0)", "v"),
        ("v = {'a': {'b': 1}}", "v['a']['b'] = 2; v['c'] = 3", "v"),
        ("v = {1, 2}", "v.add(3); v.discard(1)", "v"),
        ("v = bytearray(b'abc')", "v[0] = 0; v += b'x'", "v"),
        ("import collections\nv = collections.deque([1, 2], maxlen=5)", "v.appendleft(0)", "v"),
        (
            "import collections\nv = collections.defaultdict(list, a=[1])",
            "v['b'].append(1); v.default_factory = None",
            "v, v.default_factory",
        ),
        (
            "import collections\nv = collections.OrderedDict(a=1, b=2)",
            "v.move_to_end('a')",
            "list(v.items())",
        ),
        ("import collections\nv = collections.Counter('aab')", "v.update('ccc')", "v"),
        ("class C:\n    pass\nv = C(); v.x = [1]", "v.x.append(2); v.y = 1", "vars(v)"),
        (
            "class C:\n    __slots__ = ('x', 'y')\nv = C(); v.x = 1",
            "v.x = 2; v.y = 3",
            "v.x, hasattr(v, 'y')",
        ),
        (
            "class L(list):\n    pass\nv = L([1]); v.tag = 'a'",
            "v.append(2); v.tag = 'b'",
            "list(v), v.tag",
        ),
        (
            "class C:\n    n = 1\n    def f(self): return 1\nv = C()",
            "C.n = 2; C.f = lambda self: 2; C.g = 3",
            "v.n, v.f(), hasattr(C, 'g')",
        ),
        (
            "def v(x, y=1):\n    return x + y",
            "v.__defaults__ = (5,); v.tag = 1; v.__code__ = (lambda x, y: 0).__code__",
            "v(1), vars(v)",
        ),
        (
            "def make():\n    n = 0\n    def count():\n        nonlocal n\n        n += 1\n        return n\n    return count\nv = make()",
            "v(); v()",
            "v.__closure__[0].cell_contents",
        ),
        (
            "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nv = [P(1)]",
            "v[0].x = 5; v.append(P(2))",
            "v",
        ),
        ("v = ([1], {2: [3]})", "v[0].append(1); v[1][2] += [1]", "v"),
        ("v = [1000]", "v[0] += 1; v[0] += 1", "v"),
        ("v = [-1, 0.0, 1, True]", "v[:] = [-2, -0.0, True, 1]", "v"),
    ],
)
def test_mutations_are_undone(cells: Cells, setup: str, change: str, look: str) -> None:
    cells.run(setup)
    before = cells.text(look)
    cells.text(change)
    done = cells.kernel.undo(cells.number)
    assert done.exact
    assert cells.text(look) == before


def test_other_references_see_the_restored_object(cells: Cells) -> None:
    undone(
        cells,
        "v = [1]; w = {'v': v}; f = lambda: v; address = id(v)",
        "v.append(2); w['v'] = [7]; del v",
    )
    assert cells.text("v is w['v'] is f(), v, id(v) == address") == "(True, [1], True)\n"


def test_self_reference_and_removed_items_keep_their_identity(
    cells: Cells,
) -> None:
    undone(cells, "v = [[1]]; v.append(v); inner = v[0]", "del v[0]; v.append(5); inner.append(9)")
    assert cells.text("v[0] is inner, v[1] is v, len(v), inner") == "(True, True, 2, [1])\n"


def test_object_referenced_only_by_a_changed_one_is_restored(cells: Cells) -> None:
    undone(
        cells,
        "class C: pass\nv = [{'k': [1, 2]}, C()]; v[1].x = v[0]['k']",
        "v.clear(); import gc; gc.collect(); junk = [[i] for i in range(1000)]",
    )
    assert cells.text("v[0], v[1].x is v[0]['k']") == "({'k': [1, 2]}, True)\n"


def test_value_at_a_reused_address_is_not_mistaken_for_the_old_one(cells: Cells) -> None:
    """So many objects cannot all be kept alive, and new ones get the addresses of those that were
    dropped."""
    cells.text(
        "import datetime, decimal, fractions, pathlib, re, uuid\n"
        "makers = [decimal.Decimal, fractions.Fraction, datetime.date.fromordinal, datetime.timedelta, lambda n: uuid.UUID(int=n), range,"
        " lambda n: pathlib.Path(str(n)), lambda n: re.compile(str(n)),"
        " lambda n: datetime.time(n % 24, n // 24 % 60, n % 60), lambda n: datetime.datetime.fromtimestamp(n, datetime.timezone.utc)]\n"
        "v = [[make(n) for n in range(1, 1001)] for make in makers]"
    )
    before = cells.text("repr(v)")
    cells.text(
        "for values, make in zip(v, makers):\n    del values[500:]\n    values += [make(n) for n in range(2001, 2501)]"
    )
    assert cells.kernel.undo(cells.number).exact
    assert cells.text("repr(v)") == before


def test_undo_of_an_earlier_cell_undoes_the_later_ones_too(cells: Cells) -> None:
    cells.text("v = [1]; n = 1")
    first = cells.number + 1
    for number in (2, 3, 4):
        cells.text(f"v.append({number}); n = {number}")
        cells.text("n + 1")
    assert kinds(cells.kernel.undo(first)) == {"v": "changed", "n": "rebound"}
    assert cells.text("v, n") == "([1], 1)\n"


def test_redo_works_until_another_cell_runs(cells: Cells) -> None:
    cells.text("v = [1]; n = 1")
    cells.text("v.append(2); n = 2")
    cells.text("v.append(3); n = 3")
    last = cells.number
    cells.kernel.undo(last)
    cells.kernel.undo(last - 1)
    assert [step.cell for step in cells.kernel.undo_steps()] == [last - 2]
    cells.kernel.redo()
    cells.kernel.redo()
    assert [step.cell for step in cells.kernel.undo_steps()] == [last - 2, last - 1, last]
    with pytest.raises(KernelError, match="nothing to redo"):
        cells.kernel.redo()
    cells.kernel.undo(last)
    assert cells.text("v, n") == "([1, 2], 2)\n"
    with pytest.raises(KernelError, match="nothing to redo"):
        cells.kernel.redo()


def test_preview_changes_nothing_and_matches_the_undo(cells: Cells) -> None:
    cells.text("v = [1]; n = 1")
    cells.text("v.append(2); n = 2; m = 3")
    before = cells.kernel.preview_undo(cells.number)
    assert [(variable.name, variable.summary) for variable in cells.kernel.variables()] == [
        ("v", "2 items"),
        ("n", "2"),
        ("m", "3"),
    ]
    assert cells.kernel.undo(cells.number) == before


def test_impossible_undo_gives_one_sentence(cells: Cells) -> None:
    cells.text("v = 1")
    with pytest.raises(KernelError, match="Cell 99 cannot be undone"):
        cells.kernel.undo(99)
    cells.kernel.undo(1)
    with pytest.raises(KernelError, match="Cell 1 cannot be undone"):
        cells.kernel.undo(1)


def test_undo_while_a_cell_runs_is_refused(cells: Cells) -> None:
    cells.text("v = 1")
    refusals: list[str] = []

    def undo() -> None:
        with pytest.raises(KernelError, match="A cell is running") as refusal:
            cells.kernel.undo(1)
        refusals.append(str(refusal.value))
        cells.kernel.interrupt()

    cells.run_until("go", undo, "print('go', flush=True)\nimport time\ntime.sleep(60)")
    assert len(refusals) == 1
    assert cells.text("v") == "1\n"
