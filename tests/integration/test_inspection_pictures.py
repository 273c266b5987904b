"""Looking at images of PIL's and figures of matplotlib's: they are drawn, whatever they are of, and
stay what they were."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from mahtab_tui.kernel.base import KernelError
from tests.integration.inspection import Looking, looking, named

MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I", "F", "I;16")


@pytest.fixture(scope="module")
def looked() -> Iterator[Looking]:
    with looking() as made:
        made.run(
            "from PIL import Image\nimport matplotlib.pyplot as plt\nfrom matplotlib.figure import Figure"
        )
        yield made


def seen(looked: Looking, name: str) -> Image.Image:
    """The picture that is drawn of a variable."""
    assert looked.look.open(named(name)).views[0] == "picture"
    return Image.open(io.BytesIO(looked.look.picture(named(name))))


@pytest.mark.parametrize("mode", MODES)
def test_images_of_every_mode_are_drawn(looked: Looking, mode: str) -> None:
    looked.run(f"image = Image.new('{mode}', (30, 20))")
    assert seen(looked, "image").size == (30, 20)
    assert looked.cells.text("image.mode, image.size") == f"({mode!r}, (30, 20))\n"


def test_large_image_is_drawn_smaller_and_stays_large(looked: Looking) -> None:
    looked.run("image = Image.new('RGB', (9_000, 3_000), (255, 0, 0))")
    small = seen(looked, "image")
    assert small.size == (2_000, 667)
    assert small.getpixel((5, 5)) == (255, 0, 0)
    assert looked.cells.text("image.size") == "(9000, 3000)\n"


def test_lazy_image_is_loaded_and_a_closed_one_reported(looked: Looking, tmp_path: Path) -> None:
    file = str(tmp_path / "a.png")
    looked.run(f"Image.new('RGB', (12, 8)).save({file!r}); image = Image.open({file!r})")
    assert seen(looked, "image").size == (12, 8)
    looked.run(f"image = Image.open({file!r}); image.close()")
    with pytest.raises(KernelError, match=r"closed|cannot"):
        looked.look.picture(named("image"))


@pytest.mark.parametrize("size", ["(0, 5)", "(5, 0)"])
def test_image_without_pixels_does_not_crash(looked: Looking, size: str) -> None:
    looked.run(f"image = Image.new('RGB', {size})")
    with pytest.raises(KernelError):
        looked.look.picture(named("image"))


def test_object_no_longer_a_picture_is_reported(looked: Looking) -> None:
    looked.run("image = bytearray(b'GIF89a')")
    opened = looked.look.open(named("image"))
    assert opened.views[0] == "picture"
    looked.run("image[:] = b'words'")
    with pytest.raises(KernelError, match=r"^This is no longer a picture; press r to reload\.$"):
        looked.look.picture(opened.path)


def test_user_defined_class_is_not_drawn_automatically(looked: Looking) -> None:
    looked.run("class Own(Image.Image):\n    def copy(self): 1 / 0\nimage = Own()")
    assert looked.look.open(named("image")).views[0] != "picture"


@pytest.mark.parametrize(
    "made", ["plt.figure(figsize=(4, 3), dpi=50)", "Figure(figsize=(4, 3), dpi=50)"]
)
def test_figure_is_drawn_without_changing(looked: Looking, made: str) -> None:
    looked.run(
        f"figure = {made}; axes = figure.add_subplot(); axes.plot([1, 2, 3]); plt.close('all')"
    )
    before = "figure.dpi, tuple(figure.get_size_inches()), type(figure.canvas).__name__, plt.get_fignums(), len(axes.lines)"
    unchanged = looked.cells.text(before)
    drawn = seen(looked, "figure")
    assert drawn.width > 100
    assert (
        drawn.convert("RGB").getcolors(100_000) is None
        or len(drawn.convert("RGB").getcolors(100_000) or ()) > 2
    )
    assert looked.cells.text(before) == unchanged


def test_failing_figure_reports_the_reason(looked: Looking) -> None:
    looked.run(
        "figure = Figure()\nclass Bad(plt.Line2D):\n    def draw(self, renderer): raise ValueError('no ink')\nfigure.add_artist(Bad([0, 1], [0, 1]))"
    )
    with pytest.raises(KernelError, match="no ink"):
        looked.look.picture(named("figure"))
