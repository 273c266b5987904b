"""Searches by script for the unit tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.recursion_scripts import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A bench for searches; when it is closed, their events must make whole trees."""
    from tests.recursion_scripts import Bench  # it loads the models' libraries, which most tests do without

    bench = Bench()
    yield bench
    bench.close()
