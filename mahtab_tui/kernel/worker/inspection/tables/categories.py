"""pandas' categorical columns."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ..cells import cell_text
from ..conditions import Condition
from ..pace import Pace
from .column import DISTINCT, Statistics, as_slice, top_values
from .numbers import NumberColumn
from .objects import ObjectColumn


class CategoryColumn:
    """A categorical column, sorted in the order of its categories."""

    right = False

    def __init__(self, values: Any) -> None:
        """`values`: a Categorical."""
        self._values = values
        self._codes = values.codes
        self.type = "category"

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        codes = self._codes[as_slice(rows)].tolist()
        categories = self._values.categories
        known = {code: cell_text(categories[code]) for code in set(codes) if code >= 0}
        return [known.get(code) for code in codes]

    def value(self, row: int) -> Any:
        return self._values[row]

    def order(self, descending: bool, among: Sequence[int] | None, pace: Pace) -> Sequence[int]:
        return NumberColumn(self._codes, missing=self._codes < 0).order(descending, among, pace)

    def matching(self, condition: Condition, pace: Pace) -> Sequence[int]:
        if condition.op in ("missing", "present"):
            return NumberColumn(self._codes, missing=self._codes < 0).matching(condition, pace)
        fitting = ObjectColumn(self._values.categories).matching(condition, pace)
        numpy = sys.modules["numpy"]
        found: Sequence[int] = numpy.flatnonzero(numpy.isin(self._codes, list(fitting)))
        return found

    def statistics(self, pace: Pace) -> Statistics:
        missing = int((self._codes < 0).sum())
        counts = sys.modules["numpy"].bincount(self._codes[self._codes >= 0], minlength=1)
        categories, used = self._values.categories, counts.nonzero()[0].tolist()
        if len(used) > DISTINCT:
            return Statistics(missing)
        return Statistics(missing, top=top_values((cell_text(categories[code]) or "", int(counts[code])) for code in used))
