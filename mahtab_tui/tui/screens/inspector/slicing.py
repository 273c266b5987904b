"""Slices of arrays of many dimensions: two dimensions whole, an index in each of the others."""

from __future__ import annotations

from collections.abc import Sequence

Slice = tuple[int | None, ...]


def first_slice(shape: Sequence[int]) -> Slice:
    """Show the last two dimensions, at index 0 of the others."""
    return tuple(None if place >= len(shape) - 2 else 0 for place in range(len(shape)))


def fits(slice: Slice | None, shape: Sequence[int]) -> bool:
    """Whether an array of a shape has the slice. None stands for all of an array of at most two
    dimensions."""
    if slice is None:
        return len(shape) <= 2
    return len(slice) == len(shape) > 2 and all(
        place is None or place < size for place, size in zip(slice, shape, strict=True)
    )


def stepped(slice: Slice, shape: Sequence[int], dimension: int, step: int) -> Slice:
    """The neighbouring slice, along a dimension that has an index."""
    place = slice[dimension]
    if place is None:
        return slice
    return (
        *slice[:dimension],
        max(0, min(shape[dimension] - 1, place + step)),
        *slice[dimension + 1 :],
    )


def fixed(slice: Slice) -> list[int]:
    """The dimensions that have an index."""
    return [dimension for dimension, place in enumerate(slice) if place is not None]


def written(slice: Slice) -> list[str]:
    """Write a slice as in code."""
    return [":" if place is None else str(place) for place in slice]


def parse(text: str, shape: Sequence[int]) -> Slice:
    """Read what a user typed, as in ``3, :, :``. Raises `ValueError` with a sentence."""
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    if len(parts) != len(shape):
        raise ValueError(f"The array has {len(shape)} dimensions: enter a number or : for each.")
    found: list[int | None] = []
    for part, size in zip(parts, shape, strict=True):
        if part in (":", ""):
            found.append(None)
            continue
        try:
            place = int(part)
        except ValueError:
            raise ValueError(f"{part} is neither a number nor :") from None
        place += size if place < 0 else 0
        if not 0 <= place < size:
            raise ValueError(f"{part} is out of range for a dimension of {size:,}.")
        found.append(place)
    if found.count(None) not in (1, 2):
        raise ValueError("Leave one or two dimensions whole, with :.")
    return tuple(found)
