"""Kernels and environments that are found from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.kernel.environments import (
    PythonEnvironment,
    find_environments,
    find_kernelspecs,
    has_package,
)


def test_kernels_with_a_file_and_a_harmless_name_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    (tmp_path / "kernels" / "empty").mkdir(parents=True)
    for name in ("ir", "my kernel", "[b]x"):
        (tmp_path / "kernels" / name).mkdir()
        (tmp_path / "kernels" / name / "kernel.json").write_text("{}")
    kernelspecs = find_kernelspecs()
    assert kernelspecs[0] == "ir"
    assert not {"my kernel", "[b]x", "empty"} & set(kernelspecs)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "nowhere"))
    assert "ir" not in find_kernelspecs()


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)


def make(prefix: Path, *packages: str, conda: bool = False) -> Path:
    (prefix / "bin").mkdir(parents=True)
    python = prefix / "bin" / "python"
    python.write_text(f"#!/bin/sh\ntouch {prefix}/started\n")
    python.chmod(0o755)
    if conda:
        (prefix / "conda-meta").mkdir()
    else:
        (prefix / "pyvenv.cfg").touch()
    for package in packages:
        (prefix / "lib" / "python3.12" / "site-packages" / package).mkdir(parents=True)
    return prefix


def test_environments_are_found_without_starting_them(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    own_environment = make(project / ".venv", "pandas")
    conda = make(tmp_path / "conda" / "envs" / "data", conda=True)
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(
        f"{conda}\n{conda}\n/nowhere\nrelative\n{tmp_path}/\x1b[2J\n" + "x" * 100_000
    )
    monkeypatch.setenv("CONDA_PREFIX", str(conda))
    monkeypatch.setenv("VIRTUAL_ENV", str(own_environment))
    assert find_environments(project, "/usr/bin/python3") == [
        PythonEnvironment(".venv", own_environment),
        PythonEnvironment(str(conda), conda),
    ]
    assert find_environments(project, str(own_environment / "bin" / "python")) == [
        PythonEnvironment(str(conda), conda)
    ]
    assert has_package(own_environment, "pandas")
    assert not has_package(conda, "pandas")
    assert not list(tmp_path.rglob("started"))


def test_non_environments_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / ".venv").write_text("a file")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    assert find_environments(tmp_path, "/usr/bin/python3") == []
