"""Random programs are undone without a difference (`python -m tests.random_undo 2000` makes many
more)."""

from __future__ import annotations

import pytest

from tests.integration.kernels import Cells
from tests.random_undo import difference, prepared


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (20, 40, 60))]
)
def test_random_undo_leaves_no_difference(cells: Cells, first: int) -> None:
    prepared(cells)
    assert [found for seed in range(first, first + 20) if (found := difference(cells, seed))] == []
