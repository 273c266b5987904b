"""Parts of texts, arrays and pictures."""

from __future__ import annotations

import io
import math
import re
import struct
import sys
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Callable, NamedTuple

from ..displays import draw_png
from ..objects import (
    MISSING,
    Classes,
    find_in_class,
    get_if_loaded,
    is_from,
    is_one_of,
    is_subclass,
    mro_of,
)
from .columns import Deadline, InspectionError
from .library_columns import NumberColumn

BLOCK = 1_000_000
MOST_CHARS = 200_000

_BASES = Classes(str, bytes, bytearray)


def text_class(value: object) -> Any:
    return next((base for base in mro_of(type(value)) if base in _BASES), None)


def part(value: Any, start: int, end: int) -> Any:
    base = text_class(value)
    found = base.__getitem__(value, slice(start, min(end, start + MOST_CHARS)))
    return found if base is str else bytes(found)


def length(value: Any) -> int:
    return int(text_class(value).__len__(value))


def find(
    value: str, words: str, start: int, backwards: bool, deadline: Deadline
) -> list[int] | None:
    """Wrap around at the end; words without capitals ignore case."""
    flags = 0 if any(map(str.isupper, words)) else re.IGNORECASE
    pattern = re.compile(re.escape(words), flags)
    size = length(value)
    for first, last in _blocks(start, size, backwards):
        deadline.check()
        matches = pattern.finditer(value, first, min(last + len(words), size))
        spans = (list(found.span()) for found in matches if found.start() < last)
        for span in deque(spans, 1) if backwards else spans:
            return span
    return None


def _blocks(start: int, size: int, backwards: bool) -> Iterator[tuple[int, int]]:
    step = -1 if backwards else 1
    for low, high in [(start, size), (0, start)][::step]:
        for first in range(low, high, BLOCK)[::step]:
            yield first, min(first + BLOCK, high)


BINS = 40
MOST_VALUES = 20_000_000
"""Values that a plot reads; of more, a sample."""


def line(values: Any, width: int, deadline: Deadline) -> dict[str, Any]:
    """Plot values by position; if there are many, the minimum and maximum of each part."""
    numpy = sys.modules["numpy"]
    size = len(values)
    points: list[tuple[int, float]] = []
    if size <= 2 * width:
        points = list(enumerate(values.astype("f8").tolist()))
    else:
        edges = [size * column // width for column in range(width + 1)]
        step = max(1, size // MOST_VALUES)
        for first, last in zip(edges, edges[1:]):
            deadline.check()
            part = values[first:last:step].astype("f8")
            part = part[numpy.isfinite(part)]
            if part.size:
                points += [(first, float(part.min())), ((first + last) // 2, float(part.max()))]
    points = [(x, y) for x, y in points if math.isfinite(y)]
    return {"kind": "line", "xs": [x for x, _ in points], "ys": [y for _, y in points]}


def histogram(values: Any, deadline: Deadline) -> dict[str, Any]:
    numpy = sys.modules["numpy"]
    flat = values.reshape(-1)
    flat = flat[:: max(1, flat.size // MOST_VALUES)].astype("f8")
    flat = flat[numpy.isfinite(flat)]
    deadline.check()
    xs, ys = [], []
    if flat.size:
        counts, edges = numpy.histogram(flat, bins=BINS)
        xs, ys = ((edges[:-1] + edges[1:]) / 2).tolist(), counts.tolist()
    return {"kind": "histogram", "xs": xs, "ys": ys}


def heat(values: Any, width: int, height: int) -> dict[str, Any]:
    """Reduce values to a grid that fits, by leaving out rows and columns; None for no number."""
    if not values.size:
        raise InspectionError("There are no numbers.")
    numpy = sys.modules["numpy"]
    rows, columns = (
        numpy.arange(min(most, size)) * size // min(most, size)
        for most, size in zip((height, width), values.shape)
    )
    part = values[numpy.ix_(rows, columns)].astype("f8").tolist()
    grid = [[value if math.isfinite(value) else None for value in row] for row in part]
    return {"kind": "heat", "grid": grid}


LARGEST_ARRAY = 50_000_000
"""Values that are copied at once."""


def is_array(value: Any) -> bool:
    if is_one_of(value, "numpy", "ndarray"):
        return bool(value.dtype.names is None and value.dtype.kind in "biufcmM")
    return _is_tensor(value)


def _is_tensor(value: Any) -> bool:
    if not is_one_of(value, "torch", "Tensor") or value.is_nested or value.is_quantized:
        return False
    return value.layout is get_if_loaded("torch", "strided")


def facts(value: Any) -> dict[str, Any]:
    found = {"shape": list(map(int, value.shape)), "dtype": str(value.dtype)}
    if not _is_tensor(value):
        return {**found, "device": "", "bytes": int(value.nbytes)}
    size = int(value.numel() * value.element_size())
    return {**found, "device": str(value.device), "bytes": size}


def sliced(value: Any, indexes: Sequence[int | None]) -> Any:
    """indexes: None keeps a dimension."""
    if len(indexes) != len(value.shape):
        raise InspectionError("The array now has a different shape; press r to reload.")
    for index, size in zip(indexes, value.shape):
        if index is not None and not 0 <= index < size:
            raise InspectionError("This part of the array no longer exists.")
    return as_numpy(value[tuple(slice(None) if index is None else index for index in indexes)])


def as_numpy(value: Any) -> Any:
    """Raises `InspectionError`."""
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
    if tensor.numel() > LARGEST_ARRAY:
        raise InspectionError(
            f"The tensor has more than {LARGEST_ARRAY:,} numbers, too many to fetch or convert at once."
        )
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    try:
        return tensor.numpy()
    except TypeError:  # numpy lacks bfloat16 and float8
        return tensor.float().numpy()


def can_be_drawn(value: Any) -> bool:
    if "numpy" not in sys.modules:
        return False
    if _is_tensor(value):
        return not (value.is_complex() or value.is_meta)
    return bool(value.dtype.kind in "biuf")


def statistics(value: Any, deadline: Deadline) -> dict[str, Any]:
    """Raises `InspectionError` if that would copy too many numbers."""
    values = as_numpy(value)
    if values.size > LARGEST_ARRAY and not values.flags.forc:
        raise InspectionError(
            f"The array is not contiguous and has more than {LARGEST_ARRAY:,} numbers, too many for statistics."
        )
    flat = values.reshape(-1, order="A")
    return NumberColumn(flat).statistics(deadline)._asdict()


LARGEST_PICTURE = 8_000_000
LONGEST_SIDE = 2_000
_MAGIC = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|BM.{4}\0{4}", re.DOTALL)
"""The start of a picture file; BMP's two letters alone are too common."""


class Picture(NamedTuple):
    draw: Callable[[], Any]
    """Returns a file. May run the object's code."""
    size: tuple[int, int] = (0, 0)
    """Pixels; zeros if it must be drawn for that."""
    on_request: bool = False
    """Whether the object is more than a picture, such as an array of colours."""


def picture_of(value: Any) -> Picture | None:
    if (type(value) is bytes or type(value) is bytearray) and _MAGIC.match(value):
        return Picture(lambda: bytes(value))
    if is_subclass(type(value), get_if_loaded("PIL.Image", "Image")) and is_from(value, "PIL"):
        return Picture(lambda: _encode_image(value), tuple(value.size))
    if is_one_of(value, "matplotlib.figure", "Figure"):
        return Picture(lambda: draw_png(value, LONGEST_SIDE))
    is_bytes = is_one_of(value, "numpy", "ndarray") and str(value.dtype) == "uint8"
    if is_bytes and value.ndim == 3 and value.shape[2] in (3, 4) and value.size:
        step = max(1, -(-max(value.shape[:2]) // LONGEST_SIDE))
        size = value.shape[1], value.shape[0]
        return Picture(lambda: _png(value[::step, ::step]), size, on_request=True)
    if find_in_class(type(value), "_repr_png_") is not MISSING:
        return Picture(lambda: type(value)._repr_png_(value), on_request=True)
    return None


def draw(value: Any) -> bytes:
    """Raises `InspectionError`."""
    picture = picture_of(value)
    if picture is None:
        raise InspectionError("This is no longer a picture; press r to reload.")
    found = picture.draw()
    if type(found) is not bytes or not _MAGIC.match(found):
        raise InspectionError("The object did not return a picture.")
    if len(found) > LARGEST_PICTURE:
        raise InspectionError(
            f"The picture has {len(found):,} bytes; at most {LARGEST_PICTURE:,} are shown."
        )
    return found


def _png(pixels: Any) -> bytes:
    height, width, colours = pixels.shape
    rows = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))

    def chunk(name: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(name + data)
        return struct.pack("!I", len(data)) + name + data + struct.pack("!I", checksum)

    head = struct.pack("!IIBBBBB", width, height, 8, 2 if colours == 3 else 6, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(rows, 1))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + data + chunk(b"IEND", b"")


def _encode_image(value: Any) -> bytes:
    image = value.copy()
    if max(image.size) > LONGEST_SIDE:
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
