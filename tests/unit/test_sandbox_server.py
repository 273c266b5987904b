"""The fork server of the sandboxes, alone."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mahtab_tui.kernel.worker.sandbox import server


def test_a_moment_without_process_numbers_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are all taken while another sandbox makes threads without end."""
    forks: Iterator[int | OSError] = iter([BlockingIOError(), BlockingIOError(), 4711])

    def scarce() -> int:
        made = next(forks)
        if isinstance(made, OSError):
            raise made
        return made

    pauses: list[float] = []
    monkeypatch.setattr(server, "os", SimpleNamespace(fork=scarce))
    monkeypatch.setattr(server, "time", SimpleNamespace(sleep=pauses.append))
    assert server.fork() == 4711
    assert len(pauses) == 2

    def none_left() -> int:
        raise BlockingIOError

    monkeypatch.setattr(server, "os", SimpleNamespace(fork=none_left))
    with pytest.raises(BlockingIOError):
        server.fork()
