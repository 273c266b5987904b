"""What can be drawn over cells: a picture, a part of it that is seen, and a widget that has some."""

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
    """One that fills so many cells."""

    key: Hashable
    """What tells it from others."""
    columns: int
    rows: int
    pixels: Callable[[], Image] = field(compare=False)
    """Called on a thread; raises what Pillow raises for broken files."""
    faded: tuple[int, int, int] | None = None
    """The colour toward which it is dimmed."""

    def scaled(self, width: int, height: int, resampling: Resampling) -> Image:
        """In so many pixels, on white where one sees through it. Called on a thread; raises what Pillow raises for broken files."""
        from PIL import Image

        image = self.pixels()
        image.draft("RGB", (width, height))  # of a JPEG, no more is decoded than is needed
        small = image.convert("RGBA").resize((width, height), resampling)
        drawn = Image.alpha_composite(Image.new("RGBA", small.size, "white"), small).convert("RGB")
        return drawn if self.faded is None else Image.blend(drawn, Image.new("RGB", drawn.size, self.faded), 0.5)


class Part(NamedTuple):
    """Rows of a picture, and the cell at which the first of them begins: of its widget, or of the screen."""

    picture: Picture
    x: int
    y: int
    top: int = 0
    """Rows of the picture above them."""
    rows: int = 1

    @property
    def region(self) -> Region:
        """The cells that it fills."""
        return Region(self.x, self.y, self.picture.columns, self.rows)


class Pictured:
    """A widget that draws pictures in half blocks, over which the terminal's own graphics may be drawn."""

    def pictures(self) -> Iterable[Part]:
        """What is seen of them, as it was last drawn."""
        raise NotImplementedError


def parts_seen(screen: Screen[Any]) -> Iterator[Part]:
    """What is wholly seen of pictures, where on the screen. Not in the last line: some terminals scroll for Sixel there."""
    before: list[Region] = []
    for widget, (region, clip) in screen._compositor.visible_widgets.items():  # from the front to the back
        seen = region.intersection(clip)
        if isinstance(widget, Pictured):
            for part in widget.pictures():
                placed = part._replace(x=part.x + region.x, y=part.y + region.y)
                place = placed.region
                if seen.contains_region(place) and place.bottom < screen.size.height and not any(each.overlaps(place) for each in before):
                    yield placed
        before.append(seen)
