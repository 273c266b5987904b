"""A picture of a size in cells, and where pictures are on the screen."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.geometry import Region
from textual.screen import Screen

from mahtab_tui.pictures.picture_data import scale_picture

if TYPE_CHECKING:
    from PIL.Image import Image, Resampling

    from mahtab_tui.tui.theme import Palette


@dataclass(frozen=True)
class SizedPicture:
    """A picture and its size in cells."""

    key: Hashable
    """Pictures with the same key have the same content."""
    columns: int
    rows: int
    pixels: Callable[[], Image] = field(compare=False)
    """Opens the picture. Called on a thread. Raises Pillow's errors."""
    chart_palette: Palette | None = None
    """The colours of a figure that is drawn for the cells; None to draw the pixels."""

    def scaled(self, width: int, height: int, resampling: Resampling) -> Image:
        """Return the picture in this size in pixels, with transparent parts in white.

        Raises Pillow's errors.
        """

        return scale_picture(self.pixels(), width, height, resampling)

    def fitted(self, width: int, height: int, resampling: Resampling) -> Image:
        """Return the picture in this size in pixels.

        The cells of a figure have other proportions than its pixels, which then leave some empty.
        Raises Pillow's errors.
        """
        from PIL import Image

        if self.chart_palette is None:
            return self.scaled(width, height, resampling)

        picture_width, picture_height = self.pixels().size
        scale = min(width / picture_width, height / picture_height)
        scaled_width = max(1, round(picture_width * scale))
        scaled_height = max(1, round(picture_height * scale))
        image = self.scaled(scaled_width, scaled_height, resampling)

        background = self.chart_palette.surface.bgcolor
        colour = "black" if background is None else background.get_truecolor().hex
        canvas = Image.new("RGB", (width, height), colour)
        canvas.paste(image, (0, 0))
        return canvas


class PicturePart(NamedTuple):
    """Consecutive rows of a picture, and where they are on the screen."""

    picture: SizedPicture
    x: int
    """The first column on the screen, or in the widget that shows the picture."""
    y: int
    """The first line there."""
    top: int = 0
    """The first row, counted from the top of the picture."""
    rows: int = 1

    @property
    def region(self) -> Region:
        """The cells that the part covers."""
        return Region(self.x, self.y, self.picture.columns, self.rows)


class PictureWidget:
    """A widget that shows pictures."""

    def pictures(self) -> Iterable[PicturePart]:
        """Return the visible parts; their places are those in the widget."""
        raise NotImplementedError

    def fit_pictures(self) -> None:
        """Lay out the pictures again, because it has become known what the terminal can draw."""


def visible_parts(screen: Screen[Any]) -> Iterator[PicturePart]:
    """Yield the parts of a screen's pictures that are seen whole, except in the last line, where
    Sixel may scroll."""
    regions_in_front: list[Region] = []
    # From the front to the back.
    for widget, (region, clip) in screen._compositor.visible_widgets.items():
        visible_region = region.intersection(clip)
        if isinstance(widget, PictureWidget):
            for part in widget.pictures():
                part_on_screen = part._replace(x=part.x + region.x, y=part.y + region.y)
                area = part_on_screen.region
                is_inside = visible_region.contains_region(area)
                is_covered = any(front.overlaps(area) for front in regions_in_front)
                if is_inside and not is_covered and area.bottom < screen.size.height:
                    yield part_on_screen
        regions_in_front.append(visible_region)
