"""What is reported of kernels without a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.kernel.detached import DetachedKernel
from mahtab_tui.session import background_kernels


def test_report_of_several_kernels_names_commands_that_every_interface_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = [
        DetachedKernel(name, 1, 0, 0.0, False, True, None, Path(name)) for name in ("a", "b")
    ]
    monkeypatch.setattr(background_kernels, "local_detached_kernels", lambda: kernels)
    monkeypatch.setattr(background_kernels, "remote_detached_kernels", list)
    sentence = background_kernels.describe_detached_kernels()
    assert sentence.startswith("2 kernels are in the background. mahtab-tui sessions --all lists")
    assert " /" not in sentence
