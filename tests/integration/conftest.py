"""Kernels for the integration tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mahtab_tui.kernel.process import ProcessKernel
from tests.integration.kernels import Cells, RecordingHost


@pytest.fixture
def cells(project: Path) -> Iterator[Cells]:
    """A started kernel process, whose working directory is `project`."""
    host = RecordingHost()
    kernel = ProcessKernel(host)
    kernel.start()
    yield Cells(kernel, host)
    kernel.close()
