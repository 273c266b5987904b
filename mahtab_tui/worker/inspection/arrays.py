"""Arrays of numbers, and plots of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..values.objects import get_if_loaded, is_one_of
from .limits import Deadline, InspectionError
from .number_column import NumberColumn

HISTOGRAM_BINS = 40
MAX_PLOTTED_VALUES = 20_000_000
"""Values that a plot reads; of more, a sample."""
MAX_COPIED_VALUES = 50_000_000
"""Values that are copied at once."""


def _plotted_step(size: int) -> int:
    """Return n so that every n-th of `size` values are at most `MAX_PLOTTED_VALUES`."""
    return max(1, -(-size // MAX_PLOTTED_VALUES))


def line_plot(values: Any, width: int, deadline: Deadline) -> dict[str, Any]:
    """Plot values by position.

    Of more than two values for each of `width` cells, a part's minimum stands at its start and its
    maximum in its middle, so that the line between them covers the part.
    """
    numpy = sys.modules["numpy"]
    size = len(values)
    points: list[tuple[int, float]] = []
    if size <= 2 * width:
        points = list(enumerate(values.astype("f8").tolist()))
    else:
        edges = [size * column // width for column in range(width + 1)]
        step = _plotted_step(size)
        for start_row, end_row in zip(edges, edges[1:]):
            deadline.check()
            segment = values[start_row:end_row:step].astype("f8")
            segment = segment[numpy.isfinite(segment)]
            if segment.size:
                points += [
                    (start_row, float(segment.min())),
                    ((start_row + end_row) // 2, float(segment.max())),
                ]
    points = [(x, y) for x, y in points if math.isfinite(y)]
    return {"kind": "line", "xs": [x for x, _ in points], "ys": [y for _, y in points]}


def histogram(values: Any, deadline: Deadline) -> dict[str, Any]:
    """Return the middles of equal bins, and how many values are in each."""
    numpy = sys.modules["numpy"]
    flat = values.reshape(-1)
    flat = flat[:: _plotted_step(flat.size)].astype("f8")
    flat = flat[numpy.isfinite(flat)]
    deadline.check()
    xs = []
    ys = []
    if flat.size:
        counts, edges = numpy.histogram(flat, bins=HISTOGRAM_BINS)
        xs = ((edges[:-1] + edges[1:]) / 2).tolist()
        ys = counts.tolist()
    return {"kind": "histogram", "xs": xs, "ys": ys}


def heat_map(values: Any, width: int, height: int) -> dict[str, Any]:
    """Reduce values to a grid that fits, by leaving out rows and columns; None for no number."""
    if not values.size:
        raise InspectionError("There are no numbers.")
    numpy = sys.modules["numpy"]
    row_count = min(height, values.shape[0])
    column_count = min(width, values.shape[1])
    rows = numpy.arange(row_count) * values.shape[0] // row_count
    columns = numpy.arange(column_count) * values.shape[1] // column_count
    cells = values[numpy.ix_(rows, columns)].astype("f8").tolist()
    grid = [[value if math.isfinite(value) else None for value in row] for row in cells]
    return {"kind": "heat", "grid": grid}


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numbers or times, of NumPy or PyTorch."""
    if is_one_of(value, "numpy", "ndarray"):
        return bool(value.dtype.names is None and value.dtype.kind in "biufcmM")
    return _is_tensor(value)


def _is_tensor(value: Any) -> bool:
    if not is_one_of(value, "torch", "Tensor") or value.is_nested or value.is_quantized:
        return False
    return value.layout is get_if_loaded("torch", "strided")


def describe_array(value: Any) -> dict[str, object]:
    """Return shape, type, device ("" for the processor of NumPy) and size in bytes."""
    array_facts = {"shape": list(map(int, value.shape)), "dtype": str(value.dtype)}
    if not _is_tensor(value):
        return {**array_facts, "device": "", "bytes": int(value.nbytes)}
    size = int(value.numel() * value.element_size())
    return {**array_facts, "device": str(value.device), "bytes": size}


def slice_array(value: Any, indexes: Sequence[int | None]) -> object:
    """Return a part of an array. Raises `InspectionError` if the array has changed.

    Args:
        value: An array of NumPy or a tensor of PyTorch.
        indexes: An index for each dimension; None keeps the dimension.
    """
    if len(indexes) != len(value.shape):
        raise InspectionError("The array now has a different shape; press r to reload.")
    for index, size in zip(indexes, value.shape):
        if index is not None and size == 0:
            raise InspectionError("The array is empty.")
        if index is not None and not 0 <= index < size:
            raise InspectionError("This part of the array no longer exists.")
    return as_numpy(value[tuple(slice(None) if index is None else index for index in indexes)])


def as_numpy(value: Any) -> Any:
    """Return a tensor as an array, without a copy if that is possible. Raises `InspectionError`."""
    if not _is_tensor(value):
        return value
    if "numpy" not in sys.modules:
        raise InspectionError(
            "Showing a tensor needs numpy, which the kernel's environment does not have."
        )
    if value.is_meta:
        raise InspectionError("The tensor is on the meta device, so it has a shape but no numbers.")
    tensor = value.detach()
    with suppress(TypeError, RuntimeError):  # it needs a copy
        return tensor.numpy()
    if tensor.numel() > MAX_COPIED_VALUES:
        raise InspectionError(
            f"The tensor has more than {MAX_COPIED_VALUES:,} numbers, too many to fetch or convert at once."
        )
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    try:
        return tensor.numpy()
    except TypeError:  # numpy lacks bfloat16 and float8
        return tensor.float().numpy()


def can_be_drawn(value: Any) -> bool:
    """Return whether an array has numbers that a plot can show."""
    if "numpy" not in sys.modules:
        return False
    if _is_tensor(value):
        return not (value.is_complex() or value.is_meta)
    return bool(value.dtype.kind in "biuf")


def array_statistics(value: object, deadline: Deadline) -> dict[str, object]:
    """Return count, mean and the like. Raises `InspectionError` if that would copy too many numbers."""
    values = as_numpy(value)
    if values.size > MAX_COPIED_VALUES and not values.flags.forc:
        raise InspectionError(
            f"The array is not contiguous and has more than {MAX_COPIED_VALUES:,} numbers, too many for statistics."
        )
    flat = values.reshape(-1, order="A")
    return NumberColumn(flat).statistics(deadline)._asdict()
