"""Random keys, clicks, pastes and resizes: a few runs of `python -m tests.random_input`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.random_input import run


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
async def test_random_input_raises_no_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    await run(seed, 60)
