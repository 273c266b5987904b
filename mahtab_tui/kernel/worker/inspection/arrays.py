"""Facts about arrays and tensors, and slices of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..statics import is_one_of, loaded
from .cells import number_text
from .pace import LookError, Pace
from .tables.numbers import NumberColumn

LARGEST_ARRAY = 50_000_000
"""Numbers that are fetched from a device or converted at once."""


def is_array(value: Any) -> bool:
    """Tell whether it is a numpy array or a tensor that can be sliced."""
    if is_one_of(value, "numpy", "ndarray"):
        return bool(value.dtype.names is None and value.dtype.kind in "biufcmM")
    return is_tensor(value)


def is_tensor(value: Any) -> bool:
    """Tell whether it is a torch tensor with a shape, which nested tensors lack."""
    return is_one_of(value, "torch", "Tensor") and not value.is_nested


_PARTS = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}
"""The tensors that make up a sparse tensor, by layout."""


def facts(value: Any) -> dict[str, Any]:
    """Return shape, dtype, device and size."""
    told: dict[str, Any] = {
        "shape": list(map(int, value.shape)),
        "dtype": str(value.dtype),
        "device": "",
    }
    if not is_tensor(value):
        return {
            **told,
            "bytes": int(value.nbytes),
            "layout": "" if value.flags.c_contiguous else "strided",
        }
    layout = str(value.layout).split(".")[-1]
    parts = [getattr(value.detach(), name)() for name in _PARTS.get(layout, ())] or [value]
    size = sum(int(part.numel() * part.element_size()) for part in parts)
    words = [] if layout == "strided" and value.is_contiguous() else [layout]
    if value.requires_grad:
        words.append("gradient")
    return {**told, "device": str(value.device), "bytes": size, "layout": ", ".join(words)}


def sliced(value: Any, places: Sequence[int | None]) -> Any:
    """Return a part of an array or tensor as a numpy array. places: an index for each dimension;
    None keeps it whole."""
    if len(places) != len(value.shape):
        raise LookError("The array now has a different shape; press r to reload.")
    for place, size in zip(places, value.shape):
        if place is not None and not 0 <= place < size:
            raise LookError("This part of the array no longer exists.")
    if is_tensor(value) and value.layout is not loaded("torch", "strided"):
        value = as_numpy(value)  # a sparse tensor cannot be sliced
    return as_numpy(value[tuple(slice(None) if place is None else place for place in places)])


def as_numpy(value: Any) -> Any:
    """Convert to a numpy array, without a copy if possible. Raises `LookError`."""
    if not is_tensor(value):
        return value
    if "numpy" not in sys.modules:
        raise LookError(
            "Showing a tensor needs numpy, which the kernel's environment does not have."
        )
    tensor = value.detach()
    if tensor.is_meta:
        raise LookError("The tensor is on the meta device, so it has a shape but no numbers.")
    strided = tensor.layout is loaded("torch", "strided")
    if (
        strided
        and tensor.device.type == "cpu"
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    ):
        try:
            return tensor.numpy()
        except TypeError:  # numpy lacks bfloat16 and float8
            pass
    if tensor.numel() > LARGEST_ARRAY:
        raise LookError(
            f"The tensor has more than {LARGEST_ARRAY:,} numbers, too many to fetch or convert at once."
        )
    tensor = tensor if strided else tensor.to_dense()
    tensor = tensor.dequantize() if tensor.is_quantized else tensor
    tensor = tensor.resolve_conj().resolve_neg().cpu()
    try:
        return tensor.numpy()
    except TypeError:
        return tensor.to(loaded("torch", "complex64" if tensor.is_complex() else "float32")).numpy()


def can_be_drawn(value: Any) -> bool:
    """Tell whether its numbers can be plotted, which needs numpy."""
    if "numpy" not in sys.modules:
        return False
    return (
        not (value.is_complex() or value.is_meta)
        if is_tensor(value)
        else value.dtype.kind in "biuf"
    )


def statistics(value: Any, pace: Pace) -> dict[str, Any]:
    """Compute statistics of an array. Raises `LookError` if that would copy too many numbers."""
    values = as_numpy(value)
    if values.size > LARGEST_ARRAY and not values.flags.forc:
        raise LookError(
            f"The array is not contiguous and has more than {LARGEST_ARRAY:,} numbers, too many for statistics."
        )
    flat = values.reshape(-1, order="A")
    if not flat.size:
        return {"missing": 0, "min": "", "max": "", "mean": "", "bars": [], "std": "", "zeros": 0}
    told: dict[str, Any] = dict(NumberColumn(flat).statistics(pace)._asdict())
    numpy = sys.modules["numpy"]
    told["std"] = told["zeros"] = ""
    if flat.dtype.kind in "biuf":
        pace.check()
        with numpy.errstate(all="ignore"):
            known = flat[~numpy.isnan(flat)] if told["missing"] else flat
            told["std"] = number_text(float(known.std(dtype="f8"))) if known.size else ""
            told["zeros"] = int(flat.size - numpy.count_nonzero(flat))
    return told
