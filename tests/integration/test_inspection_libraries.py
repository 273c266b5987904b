"""Images, figures and tensors; inspectors that packages register."""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import ArrayFacts
from mahtab_tui.manual import page
from tests.integration.inspection import Looking, looking, named

MODES = ("1", "P", "RGBA", "CMYK", "F")

SHAPES = """
class Polygon:
    def __init__(self, *corners): self.corners = corners
    def perimeter(self): return 12.0
class Square(Polygon): pass
class Broken: pass
"""
INI = "[mahtab_tui.inspectors]\nshapes.Polygon = shapes_inspector:polygon\nshapes.Broken = shapes_inspector:broken\n"

CODE = """
import warnings; warnings.simplefilter("ignore")
import torch
v = torch.arange(4.)
m = torch.tensor([[1., 2.], [3., 5.]], requires_grad=True)
t3 = torch.arange(24.).reshape(2, 3, 4)
brain = torch.tensor([1., 2., 3.]).bfloat16()
coo = torch.eye(3).to_sparse()
whole = torch.tensor([True, False, True])
parameter = torch.nn.Parameter(torch.ones(2, 2))
complexes = torch.tensor([1 + 2j]).conj()
turned = torch.tensor([1 + 2j, 1 + 3j]).conj().imag
empty = torch.empty(0, 3)
meta = torch.empty(3, 3, device="meta")
scalar = torch.tensor(3.5)
nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])

class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError("inspection ran this")
    shape = dtype = property(lambda self: 1 / 0)

class Deep(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise RuntimeError("inspection ran this")

own = torch.ones(3).as_subclass(Own)
deep = torch.Tensor._make_subclass(Deep, torch.ones(3))
"""


@pytest.fixture(scope="module")
def pictures() -> Iterator[Looking]:
    with looking() as inspection:
        inspection.run(
            "from PIL import Image\nimport matplotlib.pyplot as plt\nfrom matplotlib.figure import Figure"
        )
        yield inspection


def seen(pictures: Looking, name: str) -> Image.Image:
    assert pictures.open(name).views[0] == "picture"
    return Image.open(io.BytesIO(pictures.look.picture(named(name))))


@pytest.mark.parametrize("mode", MODES)
def test_images_of_every_mode_are_drawn(pictures: Looking, mode: str) -> None:
    pictures.run(f"image = Image.new('{mode}', (30, 20))")
    assert seen(pictures, "image").size == (30, 20)
    assert pictures.cells.text("image.mode, image.size") == f"({mode!r}, (30, 20))\n"


def test_lazy_image_is_loaded_and_a_closed_one_reported(pictures: Looking, tmp_path: Path) -> None:
    file = str(tmp_path / "a.png")
    pictures.run(f"Image.new('RGB', (12, 8)).save({file!r}); image = Image.open({file!r})")
    assert seen(pictures, "image").size == (12, 8)
    pictures.run(f"image = Image.open({file!r}); image.close()")
    with pytest.raises(KernelError, match=r"closed|cannot"):
        pictures.look.picture(named("image"))


@pytest.mark.parametrize(
    "construction", ["plt.figure(figsize=(4, 3), dpi=50)", "Figure(figsize=(4, 3), dpi=50)"]
)
def test_figure_is_drawn_without_changing(pictures: Looking, construction: str) -> None:
    pictures.run(
        f"figure = {construction}; axes = figure.add_subplot(); axes.plot([1, 2, 3]); plt.close('all')"
    )
    figure_state = "figure.dpi, tuple(figure.get_size_inches()), type(figure.canvas).__name__, plt.get_fignums(), len(axes.lines)"
    unchanged = pictures.cells.text(figure_state)
    drawn = seen(pictures, "figure")
    assert drawn.width > 100
    assert pictures.cells.text(figure_state) == unchanged


def test_failing_figure_reports_the_reason(pictures: Looking) -> None:
    pictures.run(
        "figure = Figure()\nclass Bad(plt.Line2D):\n    def draw(self, renderer): raise ValueError('no ink')\nfigure.add_artist(Bad([0, 1], [0, 1]))"
    )
    with pytest.raises(KernelError, match="no ink"):
        pictures.look.picture(named("figure"))


def example() -> str:
    matched = re.search(
        r"```python\n# shapes_inspector\.py\n(.*?)```", page("inspector").text, re.DOTALL
    )
    assert matched is not None
    return matched[1]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looking]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "shapes.py").write_text(SHAPES)
    (folder / "shapes_inspector.py").write_text(
        example() + "\n\ndef broken(thing):\n    raise ValueError('no')\n"
    )
    info = folder / "shapes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shapes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(INI)
    with looking() as inspection:
        inspection.run(
            f"import sys; sys.path.append({str(folder)!r})\nimport shapes\np = shapes.Square((0, 0), (3, 0), (3, 4))\nb = shapes.Broken()"
        )
        yield inspection


def test_object_of_a_registered_class_uses_its_inspector(shapes: Looking) -> None:
    opened = shapes.open("p")
    corners, words = opened.shown
    assert (corners.title, corners.opened.views[0]) == ("Corners", "table")
    assert (words.title, words.opened.views[0]) == ("Words", "text")
    headings = shapes.look.headings(corners.opened.path, range(2))
    assert [heading.name for heading in headings] == ["x", "y"]
    text = shapes.look.text(words.opened.path, 0, 100).text
    assert text == "A polygon with 3 corners, 12.0 around."
    assert opened.views[0] == "tree"


def test_failing_inspector_is_reported_and_the_object_still_opens(shapes: Looking) -> None:
    opened = shapes.open("b")
    assert opened.problem == "Its inspector raised ValueError: no"
    assert opened.shown == ()
    assert opened.views[0] == "tree"


def test_objects_of_other_classes_have_no_inspector(shapes: Looking) -> None:
    shapes.run("class Polygon: pass\nPolygon.__module__ = 'shapes'\nfalse = Polygon()")
    opened = shapes.open("false")
    assert (opened.shown, opened.problem) == ((), "")


needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


@pytest.fixture(scope="module")
def tensors() -> Iterator[Looking]:
    with looking() as inspection:
        inspection.run(CODE)
        yield inspection


def facts(inspection: Looking, name: str) -> ArrayFacts:
    return inspection.look.array(named(name))


@needs_torch
@pytest.mark.parametrize(
    ("name", "low", "high", "mean"),
    [
        ("m", "1", "5", "2.75"),
        ("t3", "0", "23", "11.5"),
        ("brain", "1", "3", "2"),
        ("whole", "False", "True", "0.6667"),
        ("turned", "-3", "-2", "-2.5"),
        ("own", "1", "1", "1"),
    ],
)
def test_every_kind_of_tensor_has_statistics_and_can_be_drawn(
    tensors: Looking, name: str, low: str, high: str, mean: str
) -> None:
    statistics = tensors.figures(name)
    assert (statistics.min, statistics.max, statistics.mean) == (low, high, mean)
    assert tensors.open(name).views[:2] == ("array", "plot")
    assert sum(tensors.look.plot(named(name), "histogram", 40, 10).ys) > 0


@needs_torch
def test_tensor_facts_are_reported(tensors: Looking) -> None:
    assert facts(tensors, "m") == ArrayFacts((2, 2), "torch.float32", "cpu", 16)
    assert facts(tensors, "brain") == ArrayFacts((3,), "torch.bfloat16", "cpu", 6)
    assert facts(tensors, "meta").device == "meta"
    assert tensors.open("scalar").views[0] == "repr"


@needs_torch
def test_tensors_without_numbers_are_explained(tensors: Looking) -> None:
    with pytest.raises(KernelError, match="meta device"):
        tensors.figures("meta")
    assert tensors.figures("empty").min == ""
    assert "plot" not in tensors.open("complexes").views
    assert facts(tensors, "complexes").dtype == "torch.complex64"
    for name in ("nested", "coo"):
        assert tensors.open(name).views[0] == "tree"


@needs_torch
def test_no_code_of_a_subclass_runs(tensors: Looking) -> None:
    assert facts(tensors, "own") == ArrayFacts((3,), "torch.float32", "cpu", 12)
    assert tensors.open("deep").views[0] == "tree"


@needs_torch
def test_missing_numpy_is_explained_in_a_sentence() -> None:
    with looking() as inspection:
        inspection.run(
            "import sys; sys.modules['numpy'] = None\nimport warnings; warnings.simplefilter('ignore')\nimport torch; v = torch.ones(3)\ndel sys.modules['numpy']"
        )
        assert facts(inspection, "v").shape == (3,)
        assert inspection.open("v").views[0] == "array"
        with pytest.raises(
            KernelError, match="needs numpy, which the kernel's environment does not have"
        ):
            inspection.figures("v")


def test_image_without_pixels_does_not_crash(pictures: Looking) -> None:
    pictures.run("image = Image.new('RGB', (0, 5))")
    with pytest.raises(KernelError):
        pictures.look.picture(named("image"))


def test_user_defined_class_is_not_drawn_automatically(pictures: Looking) -> None:
    pictures.run("class Own(Image.Image):\n    def copy(self): 1 / 0\nimage = Own()")
    assert pictures.open("image").views[0] != "picture"
