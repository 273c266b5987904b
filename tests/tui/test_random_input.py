"""Random keys, clicks, pastes and resizes: a few runs of `python -m tests.random_input`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.random_input import run


@pytest.mark.parametrize("seed", range(3))
async def test_a_random_run_ends_in_no_error(project: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("EDITOR", "true")
    await run(seed, 60)
