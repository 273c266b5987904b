"""Types of Arrow as text."""

from __future__ import annotations

from typing import Any

from ..values.objects import is_from
from ..values.summaries import one_line
from .described_columns import MAX_CELL_CHARS


def arrow_type_text(dtype: Any) -> str:
    """Format a type of Arrow; empty if it, or a type in it, is not the library's own."""
    if not is_from(dtype, "pyarrow"):
        return ""
    inner_types = [dtype.field(index).type for index in range(dtype.num_fields)]
    if not all(map(arrow_type_text, inner_types)):
        return ""
    return one_line(str(dtype), MAX_CELL_CHARS)
