"""Describes a figure of matplotlib in words, for models that cannot see it."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

MAX_AXES = 12
MAX_SERIES = 12
MAX_NAME_CHARS = 80
MAX_TICKS = 12
MAX_TICKS_COMPARED = 200


class _Range(NamedTuple):
    least: float
    most: float
    size: int
    """How many finite numbers there are."""


def describe_figure(figure: Any) -> str:
    """Return lines about the axes of a figure that was drawn: titles, labels, series with their
    ranges, legend, and tick labels that overlap. Raises whatever a library's code raises."""
    axes = list(figure.axes)
    title = getattr(figure, "_suptitle", None)
    lines = [f"Title: {_quote(title.get_text())}"] if title and title.get_text() else []
    for number, axis in enumerate(axes[:MAX_AXES], 1):
        lines += _axes_lines(axis, f"Axes {number}" if len(axes) > 1 else "Axes")
    if len(axes) > MAX_AXES:
        lines.append(f"… and {len(axes) - MAX_AXES} more axes")
    return "\n".join(lines)


def _axes_lines(axes: Any, name: str) -> list[str]:
    title = axes.get_title()
    parts = [f"title {_quote(title)}"] if title else []
    parts += [_axis_words(axes.xaxis, "x"), _axis_words(axes.yaxis, "y")]
    lines = [f"{name}: {'; '.join(parts)}"]
    series = _series(axes)
    lines += [f"  {words}" for words in series[:MAX_SERIES]]
    if len(series) > MAX_SERIES:
        lines.append(f"  … and {len(series) - MAX_SERIES} more series")
    if not series:
        lines.append("  nothing is drawn in it")
    legend = axes.get_legend()
    if legend is not None:
        entries = [_quote(text.get_text()) for text in legend.get_texts()[:MAX_SERIES]]
        lines.append(f"  legend: {', '.join(entries)}")
    if axes.name == "rectilinear":
        lines += _overlap_lines(axes.xaxis, "x") + _overlap_lines(axes.yaxis, "y")
    return lines


def _axis_words(axis: Any, letter: str) -> str:
    """Return a label, range and scale, as in `x "weight" 1613 to 5140`."""
    label = axis.get_label_text()
    words = f"{letter} {_quote(label)}" if label else f"{letter} without a label"
    least, most = sorted(axis.get_view_interval())
    ticks = [text for text in (tick.get_text() for tick in axis.get_ticklabels()) if text.strip()]
    # Categories and dates are more than their positions. Numbers may be written as formulas.
    has_names = any(character.isalpha() for tick in ticks if "$" not in tick for character in tick)
    if has_names or not _is_plain(axis):
        shown = ", ".join(_shorten(tick) for tick in ticks[:MAX_TICKS])
        words += f", ticks {shown}{', …' if len(ticks) > MAX_TICKS else ''}" if shown else ""
    else:
        words += f", {least:.5g} to {most:.5g}"
    scale = axis.get_scale()
    return words if scale == "linear" else f"{words}, {scale} scale"


def _is_plain(axis: Any) -> bool:
    """Return whether an axis has numbers, rather than dates or categories."""
    get_converter = getattr(axis, "get_converter", None)  # since matplotlib 3.10
    converter = axis.converter if get_converter is None else get_converter()
    return converter is None


def _series(axes: Any) -> list[str]:
    """Return each line, group of bars or points, and picture, with its ranges."""
    series = []
    in_containers: set[int] = set()
    for container in axes.containers:
        in_containers.update(map(id, container))
        heights = [patch.get_height() for patch in container if hasattr(patch, "get_height")]
        widths = [patch.get_width() for patch in container if hasattr(patch, "get_width")]
        lengths = widths if getattr(container, "orientation", "") == "horizontal" else heights
        if lengths:
            series.append(f"{len(lengths)} bars{_label(container)}: {_words(_range_of(lengths))}")
    for line in axes.lines:
        if id(line) not in in_containers:
            series.append(_line_words(line))
    for collection in axes.collections:
        offsets = collection.get_offsets()
        count = len(offsets)
        kind = type(collection).__name__
        if kind == "PathCollection" and count:
            x_words = _words(_range_of(offsets[:, 0]))
            y_words = _words(_range_of(offsets[:, 1]))
            series.append(f"{count} points{_label(collection)}: x {x_words}, y {y_words}")
        elif id(collection) not in in_containers:
            series.append(f"{kind}{_label(collection)}")
    patches = [patch for patch in axes.patches if id(patch) not in in_containers]
    if patches:
        series.append(f"{len(patches)} shapes ({type(patches[0]).__name__})")
    for image in axes.images:
        shape = " x ".join(map(str, getattr(image.get_array(), "shape", ())))
        series.append(f"picture of {shape}{_label(image)}")
    return series


def _line_words(line: Any) -> str:
    x_range = _range_of(line.get_xdata(orig=False))
    y_range = _range_of(line.get_ydata(orig=False))
    count = len(line.get_ydata(orig=False))
    words = f"line{_label(line)}: {count} points"
    if y_range is None:
        return f"{words}, without a finite value"
    gaps = count - y_range.size
    x_words = "" if _has_dates(line) else f", x {_words(x_range)}"
    return f"{words}{x_words}, y {_words(y_range)}{f', {gaps} missing' if gaps else ''}"


def _has_dates(line: Any) -> bool:
    axes = getattr(line, "axes", None)
    return axes is not None and not _is_plain(axes.xaxis)


def _range_of(values: Any) -> _Range | None:
    """Return the range of the finite numbers."""
    numpy: Any = sys.modules["numpy"]
    numbers = numpy.ma.filled(numpy.ma.asarray(values, dtype=float), numpy.nan)
    finite = numbers[numpy.isfinite(numbers)]
    if not finite.size:
        return None
    return _Range(float(finite.min()), float(finite.max()), int(finite.size))


def _words(span: _Range | None) -> str:
    return "none" if span is None else f"{span.least:.5g} to {span.most:.5g}"


def _label(artist: Any) -> str:
    label = artist.get_label()
    if not isinstance(label, str) or not label or label.startswith("_"):
        return ""  # one that matplotlib made
    return f" {_quote(label)}"


def _overlap_lines(axis: Any, letter: str) -> list[str]:
    """Return a line if tick labels overlap the next one, as they were drawn."""
    labels = [label for label in axis.get_ticklabels() if label.get_text() and label.get_visible()]
    boxes = [label.get_window_extent() for label in labels[:MAX_TICKS_COMPARED]]
    overlaps = sum(first.overlaps(second) for first, second in zip(boxes, boxes[1:]))
    if not overlaps:
        return []
    return [f"  tick labels of the {letter} axis overlap ({overlaps} of {len(boxes) - 1} pairs)"]


def _quote(text: object) -> str:
    return f'"{_shorten(str(text))}"'


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_NAME_CHARS else f"{line[:MAX_NAME_CHARS]}…"
