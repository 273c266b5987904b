"""Describes a matplotlib figure in words, for models that cannot see it."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

MAX_AXES = 12
"""Further axes of a figure are counted."""
MAX_SERIES = 12
"""Further series of axes are counted; further entries of a legend are left out."""
MAX_NAME_CHARS = 80
"""Longer titles, labels and ticks are cut."""
MAX_TICKS = 12
"""Further ticks of an axis are left out."""
MAX_COMPARED_TICKS = 200
"""At most this many tick labels are searched for overlaps."""


class _Range(NamedTuple):
    """The range of the finite numbers among some values."""

    minimum: float
    maximum: float
    finite_count: int


def describe_figure(figure: Any) -> str:
    """Return lines about the axes of a figure: titles, labels, series with their ranges, legends,
    and tick labels that overlap.

    Args:
        figure: A figure that was drawn.

    Raises:
        Exception: Whatever the library's code, or that of a subclass, raises.
    """
    lines: list[str] = []
    title = getattr(figure, "_suptitle", None)
    if title is not None and title.get_text():
        lines.append(f"Title: {_quote(title.get_text())}")

    all_axes = list(figure.axes)
    for number, axes in enumerate(all_axes[:MAX_AXES], 1):
        name = f"Axes {number}" if len(all_axes) > 1 else "Axes"
        lines += _axes_lines(axes, name)
    if len(all_axes) > MAX_AXES:
        lines.append(f"… and {len(all_axes) - MAX_AXES} more axes")
    return "\n".join(lines)


def _axes_lines(axes: Any, name: str) -> list[str]:
    """Return the lines about axes: a heading, then indented lines about what is drawn in them."""
    clauses = [_axis_words(axes.xaxis, "x"), _axis_words(axes.yaxis, "y")]
    title = axes.get_title()
    if title:
        clauses.insert(0, f"title {_quote(title)}")
    lines = [f"{name}: {'; '.join(clauses)}"]

    descriptions = _describe_series(axes)
    lines += [f"  {description}" for description in descriptions[:MAX_SERIES]]
    if len(descriptions) > MAX_SERIES:
        lines.append(f"  … and {len(descriptions) - MAX_SERIES} more series")
    if not descriptions:
        lines.append("  nothing is drawn in it")

    legend = axes.get_legend()
    if legend is not None:
        entries = [_quote(text.get_text()) for text in legend.get_texts()[:MAX_SERIES]]
        lines.append(f"  legend: {', '.join(entries)}")

    # Labels around a circle, or in three dimensions, do not stand in a row.
    if axes.name == "rectilinear":
        lines += _overlap_lines(axes.xaxis, "x") + _overlap_lines(axes.yaxis, "y")
    return lines


def _axis_words(axis: Any, letter: str) -> str:
    """Return a label, range and scale, as in `x "weight" 1613 to 5140`."""
    label = axis.get_label_text()
    if label:
        words = f"{letter} {_quote(label)}"
    else:
        words = f"{letter} without a label"

    ticks = [tick.get_text() for tick in axis.get_ticklabels() if tick.get_text().strip()]
    if not _is_plain(axis) or any(_has_letter(tick) for tick in ticks):
        # Categories and dates say more than their positions.
        words += _tick_words(ticks)
    else:
        minimum, maximum = sorted(axis.get_view_interval())
        words += f", {minimum:.5g} to {maximum:.5g}"

    scale = axis.get_scale()
    if scale == "linear":
        return words
    return f"{words}, {scale} scale"


def _has_letter(tick: str) -> bool:
    """Return whether a tick has a name, rather than a number, which may be written as a formula."""
    return "$" not in tick and any(character.isalpha() for character in tick)


def _tick_words(ticks: list[str]) -> str:
    if not ticks:
        return ""
    words = ", ".join(_shorten(tick) for tick in ticks[:MAX_TICKS])
    if len(ticks) > MAX_TICKS:
        words += ", …"
    return f", ticks {words}"


def _is_plain(axis: Any) -> bool:
    """Return whether an axis has numbers, rather than dates or categories."""
    get_converter = getattr(axis, "get_converter", None)  # since matplotlib 3.10
    if get_converter is None:
        converter = axis.converter
    else:
        converter = get_converter()
    return converter is None


def _describe_series(axes: Any) -> list[str]:
    """Describe each line, group of bars or points, and picture, with its ranges."""
    descriptions: list[str] = []
    bar_ids: set[int] = set()
    for container in axes.containers:
        lengths = _bar_lengths(container)
        if lengths:
            bar_ids.update(map(id, container))
            words = _range_words(_range_of(lengths))
            descriptions.append(f"{len(lengths):,} bars{_label(container)}: {words}")

    descriptions += [_line_words(line) for line in axes.lines]
    descriptions += [_collection_words(collection) for collection in axes.collections]

    # Bars are rectangles among the patches, and were described together.
    shapes = [patch for patch in axes.patches if id(patch) not in bar_ids]
    if shapes:
        descriptions.append(f"{len(shapes):,} shapes ({type(shapes[0]).__name__})")
    for image in axes.images:
        shape = " x ".join(map(str, getattr(image.get_array(), "shape", ())))
        descriptions.append(f"picture of {shape}{_label(image)}")
    return descriptions


def _bar_lengths(container: Any) -> list[Any]:
    """Return the lengths of bars; empty if the container holds other artists, as those of error
    bars and stems, which stand among the lines and collections."""
    if getattr(container, "orientation", "") == "horizontal":
        return [patch.get_width() for patch in container if hasattr(patch, "get_width")]
    return [patch.get_height() for patch in container if hasattr(patch, "get_height")]


def _collection_words(collection: Any) -> str:
    """Describe points; of another collection, such as a filled area, only its kind."""
    offsets = collection.get_offsets()
    kind = type(collection).__name__
    if kind != "PathCollection" or not len(offsets):
        return f"{kind}{_label(collection)}"
    words = f"{len(offsets):,} points{_label(collection)}"
    ranges = _axis_ranges(collection, _range_of(offsets[:, 0]), _range_of(offsets[:, 1]))
    if not ranges:
        return words
    return f"{words}: {', '.join(ranges)}"


def _line_words(line: Any) -> str:
    """Describe a line, as in `line "mpg": 3 points, x 1 to 3, y 5 to 9, 1 missing`."""
    x_range = _range_of(line.get_xdata(orig=False))
    y_values = line.get_ydata(orig=False)
    y_range = _range_of(y_values)
    words = f"line{_label(line)}: {len(y_values):,} points"
    if y_range is None:
        return f"{words}, without a finite value"

    words = ", ".join([words, *_axis_ranges(line, x_range, y_range)])
    missing_count = len(y_values) - y_range.finite_count
    if missing_count:
        return f"{words}, {missing_count:,} missing"
    return words


def _axis_ranges(artist: Any, x_range: _Range | None, y_range: _Range | None) -> list[str]:
    """Return the ranges of an artist's coordinates along the axes that have numbers: dates and
    categories are drawn at positions that say nothing to a reader."""
    axes = artist.axes
    ranges: list[str] = []
    if axes is None or _is_plain(axes.xaxis):
        ranges.append(f"x {_range_words(x_range)}")
    if axes is None or _is_plain(axes.yaxis):
        ranges.append(f"y {_range_words(y_range)}")
    return ranges


def _range_of(values: object) -> _Range | None:
    """Return the range of the finite numbers; None if there are none."""
    numpy: Any = sys.modules["numpy"]  # matplotlib has imported it
    numbers = numpy.ma.filled(numpy.ma.asarray(values, dtype=float), numpy.nan)
    finite = numbers[numpy.isfinite(numbers)]
    if not finite.size:
        return None
    return _Range(
        minimum=float(finite.min()), maximum=float(finite.max()), finite_count=int(finite.size)
    )


def _range_words(values: _Range | None) -> str:
    if values is None:
        return "none"
    return f"{values.minimum:.5g} to {values.maximum:.5g}"


def _label(artist: Any) -> str:
    """Return the name of a series, in quotes after a blank; empty if the user gave it none."""
    label = artist.get_label()
    # matplotlib's own labels begin with an underscore.
    is_named = isinstance(label, str) and label and not label.startswith("_")
    if not is_named:
        return ""
    return f" {_quote(label)}"


def _overlap_lines(axis: Any, letter: str) -> list[str]:
    """Return a line if tick labels overlap the next one, as they were drawn."""
    labels = [label for label in axis.get_ticklabels() if label.get_text() and label.get_visible()]
    boxes = [label.get_window_extent() for label in labels[:MAX_COMPARED_TICKS]]
    overlap_count = sum(first.overlaps(second) for first, second in zip(boxes, boxes[1:]))
    if not overlap_count:
        return []
    pair_count = len(boxes) - 1
    return [f"  tick labels of the {letter} axis overlap ({overlap_count} of {pair_count} pairs)"]


def _quote(text: object) -> str:
    return f'"{_shorten(str(text))}"'


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= MAX_NAME_CHARS:
        return line
    return f"{line[:MAX_NAME_CHARS]}…"
