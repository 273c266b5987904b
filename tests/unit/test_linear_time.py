"""Readers of texts from outside take linear time, however hostile the text is.

A quadratic reader would need minutes to days for these texts. Each program tries several parts,
because starting it takes longer than most of them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from typing import Any

import pytest

import mahtab_tui
from tests.linear_readers import PIECES
from tests.waiting import run_python

pytestmark = pytest.mark.slow

PARTS = ["", *sorted(info.name for info in pkgutil.iter_modules(mahtab_tui.__path__) if info.ispkg)]


def first_is_slow(shares: Sequence[Sequence[str]]) -> list[Any]:
    """Return parameters for a test; all but the first are thorough."""
    return [
        pytest.param(share, id="|".join(share), marks=[pytest.mark.thorough] if n else [])
        for n, share in enumerate(shares)
    ]


@pytest.mark.parametrize("parts", first_is_slow([PARTS[n::3] for n in range(3)]))
def test_every_regular_expression_is_linear(parts: list[str]) -> None:
    tried = run_python("-m", "tests.linear_patterns", *parts, timeout=1_500)
    assert "none is stuck" in tried.stdout, tried.stdout + tried.stderr[-2_000:]


@pytest.mark.thorough
@pytest.mark.parametrize("pieces", first_is_slow([list(PIECES)[n::4] for n in range(4)]))
def test_every_reader_is_linear(pieces: list[str]) -> None:
    tried = run_python("-m", "tests.linear_readers", *pieces, timeout=1_500)
    assert tried.stdout.endswith("all have ended\n"), tried.stdout + tried.stderr[-2_000:]
