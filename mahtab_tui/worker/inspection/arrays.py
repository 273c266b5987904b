"""Arrays of numbers, of NumPy and PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..values.objects import get_if_loaded, is_one_of
from .limits import Deadline, InspectionError
from .numpy_column import NumPyColumn

MAX_COPIED_VALUES = 50_000_000
"""Maximum values that are copied at once."""
_ARRAY_KINDS = "biufcmM"
"""The kinds of NumPy's types for truth values, numbers, datetimes and timedeltas."""
DRAWN_KINDS = "biuf"
"""The kinds of numpy's types that a plot can show."""


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numbers or times, of NumPy or PyTorch."""
    if is_one_of(value, "numpy", "ndarray"):
        return bool(value.dtype.names is None and value.dtype.kind in _ARRAY_KINDS)
    return _is_tensor(value)


def can_be_drawn(value: Any) -> bool:
    """Return whether an array has numbers that a plot can show."""
    if "numpy" not in sys.modules:
        return False
    if _is_tensor(value):
        return not (value.is_complex() or value.is_meta)
    return bool(value.dtype.kind in DRAWN_KINDS)


def describe_array(value: Any) -> dict[str, object]:
    """Describe an array of NumPy or PyTorch.

    Returns:
        ``shape``: its size in each dimension. ``dtype``: the name of its type. ``device``: where a
        tensor lies; empty for an array of NumPy. ``bytes``: the size of its values in memory.
    """
    device = ""
    if _is_tensor(value):
        device = str(value.device)
        byte_count = value.numel() * value.element_size()
    else:
        byte_count = value.nbytes
    return {
        "shape": list(map(int, value.shape)),
        "dtype": str(value.dtype),
        "device": device,
        "bytes": int(byte_count),
    }


def slice_array(value: Any, indexes: Sequence[int | None]) -> object:
    """Return a part of an array.

    Args:
        value: An array of NumPy or a tensor of PyTorch.
        indexes: An index for each dimension; None keeps the whole dimension.

    Raises:
        InspectionError: The array has no such part, because it has changed.
    """
    if len(indexes) != len(value.shape):
        raise InspectionError("The array now has a different shape; press r to reload.")
    for index, size in zip(indexes, value.shape):
        if index is not None and size == 0:
            raise InspectionError("The array is empty.")
        if index is not None and not 0 <= index < size:
            raise InspectionError("This part of the array no longer exists.")
    selection = tuple(slice(None) if index is None else index for index in indexes)
    return as_numpy(value[selection])


def array_statistics(value: object, deadline: Deadline) -> dict[str, object]:
    """Return the fields of `Statistics` for an array of NumPy or PyTorch.

    Raises:
        InspectionError: Too many numbers would be copied.
    """
    values = as_numpy(value)
    is_contiguous = values.flags.forc
    if values.size > MAX_COPIED_VALUES and not is_contiguous:
        raise InspectionError(
            f"The array is not contiguous and has more than {MAX_COPIED_VALUES:,} numbers, too many for statistics."
        )
    flat = values.reshape(-1, order="A")
    return NumPyColumn(flat).statistics(deadline)._asdict()


def as_numpy(value: Any) -> Any:
    """Return a tensor of PyTorch as an array of NumPy, without a copy if that is possible; an array
    as it is.

    Raises:
        InspectionError: The tensor has no numbers, or too many of them would be copied.
    """
    if not _is_tensor(value):
        return value
    if "numpy" not in sys.modules:
        raise InspectionError(
            "Showing a tensor needs numpy, which the kernel's environment does not have."
        )
    if value.is_meta:
        raise InspectionError("The tensor is on the meta device, so it has a shape but no numbers.")
    tensor = value.detach()
    # These errors mean that the tensor needs a copy.
    with suppress(TypeError, RuntimeError):
        return tensor.numpy()
    if tensor.numel() > MAX_COPIED_VALUES:
        raise InspectionError(
            f"The tensor has more than {MAX_COPIED_VALUES:,} numbers, too many to fetch or convert at once."
        )
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    try:
        return tensor.numpy()
    except TypeError:
        # NumPy lacks some types of PyTorch, such as bfloat16 and float8.
        return tensor.float().numpy()


def _is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of PyTorch that has a number in each place."""
    if not is_one_of(value, "torch", "Tensor") or value.is_nested or value.is_quantized:
        return False
    return value.layout is get_if_loaded("torch", "strided")
