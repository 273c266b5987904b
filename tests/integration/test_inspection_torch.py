"""Looking inside torch's own tensors: what they are, their numbers, slices and plots. Where torch
is not installed there is nothing to test."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import ArrayFacts, ArrayStatistics, TableArrangement
from tests.integration.inspection import Looking, looking, named

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

CODE = """
import warnings; warnings.simplefilter("ignore")
import torch
v = torch.arange(4.)
m = torch.tensor([[1., 2.], [3., 5.]], requires_grad=True)
t3 = torch.arange(24.).reshape(2, 3, 4)
brain = torch.tensor([1., 2., 3.]).bfloat16()
tiny = torch.tensor([1., 2., 3.]).to(torch.float8_e4m3fn)
coo = torch.eye(3).to_sparse()
csr = torch.eye(3).to_sparse_csr()
whole = torch.tensor([True, False, True])
parameter = torch.nn.Parameter(torch.ones(2, 2))
complexes = torch.tensor([1 + 2j]).conj()
turned = torch.tensor([1 + 2j, 1 + 3j]).conj().imag
quantized = torch.quantize_per_tensor(torch.tensor([0., 1.]), 0.5, 0, torch.qint8)
empty = torch.empty(0, 3)
meta = torch.empty(3, 3, device="meta")
large = torch.zeros(60_000_000)
across = torch.zeros(2, 3).T
scalar = torch.tensor(3.5)
nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])

class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError("looking has run me")
    shape = dtype = property(lambda self: 1 / 0)

class Deep(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError("looking has run me")

own = torch.ones(3).as_subclass(Own)
deep = torch.Tensor._make_subclass(Deep, torch.ones(3))
"""


@pytest.fixture(scope="module")
def looked() -> Iterator[Looking]:
    with looking() as made:
        made.run(CODE)
        yield made


def facts(looked: Looking, name: str) -> ArrayFacts:
    return looked.look.array(named(name))


def figures(looked: Looking, name: str) -> ArrayStatistics:
    return looked.look.array_figures(named(name))


@pytest.mark.parametrize(
    ("name", "low", "high", "mean"),
    [
        ("v", "0", "3", "1.5"),
        ("m", "1", "5", "2.75"),
        ("t3", "0", "23", "11.5"),
        ("brain", "1", "3", "2"),
        ("tiny", "1", "3", "2"),
        ("coo", "0", "1", "0.3333"),
        ("csr", "0", "1", "0.3333"),
        ("whole", "False", "True", "0.6667"),
        ("parameter", "1", "1", "1"),
        ("turned", "-3", "-2", "-2.5"),
        ("quantized", "0", "1", "0.5"),
        ("large", "0", "0", "0"),
        ("own", "1", "1", "1"),
    ],
)
def test_every_kind_of_tensor_has_statistics_and_can_be_drawn(
    looked: Looking, name: str, low: str, high: str, mean: str
) -> None:
    statistics = figures(looked, name)
    assert (statistics.min, statistics.max, statistics.mean) == (low, high, mean)
    assert looked.look.open(named(name)).views[:2] == ("array", "plot")
    assert sum(looked.look.plot(named(name), "histogram", 40, 10).ys) > 0


def test_tensor_facts_are_reported(looked: Looking) -> None:
    assert facts(looked, "m") == ArrayFacts((2, 2), "torch.float32", "cpu", 16, "gradient")
    assert facts(looked, "brain") == ArrayFacts((3,), "torch.bfloat16", "cpu", 6, "")
    assert facts(looked, "coo") == ArrayFacts(
        (3, 3), "torch.float32", "cpu", 3 * 2 * 8 + 3 * 4, "sparse_coo"
    )
    assert facts(looked, "across").layout == "strided"
    assert facts(looked, "meta").device == "meta"
    assert looked.look.open(named("scalar")).views[0] == "repr"


def test_variable_list_shows_tensor_shape_and_type(looked: Looking) -> None:
    summaries = {variable.name: variable.summary for variable in looked.cells.kernel.variables()}
    assert summaries["parameter"] == "torch.float32 (2, 2) cpu"
    assert summaries["v"] == "torch.float32 (4) cpu"


@pytest.mark.parametrize(
    ("name", "slices", "cells"),
    [("t3", [1, None, 2], ("14", "18", "22")), ("coo", [None, None], ("1", "0", "0"))],
)
def test_slices_are_read_as_tables(
    looked: Looking, name: str, slices: list[int | None], cells: tuple[str, ...]
) -> None:
    path = (*named(name), ["slice", slices])
    page = looked.look.rows(path, 0, 3, [0], TableArrangement())
    assert tuple(str(cell).rstrip("0").rstrip(".") or "0" for cell in page.cells[0]) == cells


def test_tensors_without_numbers_are_explained(looked: Looking) -> None:
    with pytest.raises(KernelError, match="meta device"):
        figures(looked, "meta")
    assert figures(looked, "empty").min == ""
    assert "plot" not in looked.look.open(named("complexes")).views
    assert facts(looked, "complexes").dtype == "torch.complex64"
    assert looked.look.open(named("nested")).views[0] == "tree"


def test_no_code_of_a_subclass_runs(looked: Looking) -> None:
    assert facts(looked, "own") == ArrayFacts((3,), "torch.float32", "cpu", 12, "")
    assert looked.look.open(named("deep")).views[0] == "tree"


def test_missing_numpy_is_explained_in_a_sentence() -> None:
    with looking() as made:
        made.run(
            "import sys; sys.modules['numpy'] = None\nimport warnings; warnings.simplefilter('ignore')\nimport torch; v = torch.ones(3)\ndel sys.modules['numpy']"
        )
        assert facts(made, "v").shape == (3,)
        assert made.look.open(named("v")).views[0] == "array"
        with pytest.raises(
            KernelError, match="needs numpy, which the kernel's environment does not have"
        ):
            figures(made, "v")
