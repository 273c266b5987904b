"""Jupyter's kernels of this machine, found from files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.kernel.launch import find_kernelspecs


def test_kernels_with_a_file_and_a_harmless_name_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    for name in ("ir", "my kernel", "[b]x", "empty"):
        (tmp_path / "kernels" / name).mkdir(parents=True)
        if name != "empty":
            (tmp_path / "kernels" / name / "kernel.json").write_text("{}")
    found = find_kernelspecs()
    assert found[0] == "ir"
    assert not {"my kernel", "[b]x", "empty"} & set(found)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "nowhere"))
    assert "ir" not in find_kernelspecs()
