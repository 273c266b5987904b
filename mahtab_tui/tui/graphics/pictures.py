"""Pictures of a size in cells, their visible parts, and widgets that have pictures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.geometry import Region
from textual.screen import Screen

if TYPE_CHECKING:
    from PIL.Image import Image, Resampling


@dataclass(frozen=True)
class Picture:
    """A picture of a size in cells."""

    key: Hashable
    columns: int
    rows: int
    pixels: Callable[[], Image] = field(compare=False)
    """Called on a thread. Raises Pillow's errors for broken files."""
    faded: tuple[int, int, int] | None = None
    """The colour toward which it is dimmed."""

    def scaled(self, width: int, height: int, resampling: Resampling) -> Image:
        """Scale the picture, on white if it is transparent. Called on a thread. Raises Pillow's
        errors for broken files."""
        from PIL import Image

        image = self.pixels()
        image.draft("RGB", (width, height))  # decodes a JPEG no larger than needed
        small = image.convert("RGBA").resize((width, height), resampling)
        drawn = Image.alpha_composite(Image.new("RGBA", small.size, "white"), small).convert("RGB")
        return (
            drawn
            if self.faded is None
            else Image.blend(drawn, Image.new("RGB", drawn.size, self.faded), 0.5)
        )


class PicturePart(NamedTuple):
    """Some rows of a picture, and the cell of the widget or screen where they start."""

    picture: Picture
    x: int
    y: int
    top: int = 0
    """Rows of the picture above them."""
    rows: int = 1

    @property
    def region(self) -> Region:
        return Region(self.x, self.y, self.picture.columns, self.rows)


class PictureWidget:
    """A widget that draws pictures in half blocks, over which the terminal's own graphics may be
    drawn."""

    def pictures(self) -> Iterable[PicturePart]:
        """Return the visible parts as they were last drawn."""
        raise NotImplementedError


def parts_seen(screen: Screen[Any]) -> Iterator[PicturePart]:
    """Yield the fully visible parts of pictures on the screen, except in the last line, where Sixel
    makes some terminals scroll."""
    before: list[Region] = []
    for widget, (
        region,
        clip,
    ) in screen._compositor.visible_widgets.items():  # from the front to the back
        seen = region.intersection(clip)
        if isinstance(widget, PictureWidget):
            for part in widget.pictures():
                placed = part._replace(x=part.x + region.x, y=part.y + region.y)
                place = placed.region
                if (
                    seen.contains_region(place)
                    and place.bottom < screen.size.height
                    and not any(each.overlaps(place) for each in before)
                ):
                    yield placed
        before.append(seen)
