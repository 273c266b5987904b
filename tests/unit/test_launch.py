"""Kernels and environments of this machine that are found from files, and offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.launch import (
    PythonEnvironment,
    find_environments,
    find_kernelspecs,
    has_package,
)
from mahtab_tui.session.loading import inspect_files
from mahtab_tui.tui.greeting import greeting_lines, make_offer, missing_module, welcome_text
from tests import tags
from tests.records import made


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
    own, conda = (
        make(project / ".venv", "pandas"),
        make(tmp_path / "conda" / "envs" / "data", conda=True),
    )
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(
        f"{conda}\n{conda}\n/nowhere\nrelative\n{tmp_path}/\x1b[2J\n" + "x" * 100_000
    )
    monkeypatch.setenv("CONDA_PREFIX", str(conda))
    monkeypatch.setenv("VIRTUAL_ENV", str(own))
    assert find_environments(project, "/usr/bin/python3") == [
        PythonEnvironment(".venv", own),
        PythonEnvironment(str(conda), conda),
    ]
    assert find_environments(project, str(own / "bin" / "python")) == [
        PythonEnvironment(str(conda), conda)
    ]
    assert has_package(own, "pandas")
    assert not has_package(conda, "pandas")
    assert not list(tmp_path.rglob("started"))


def test_non_environments_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / ".venv").write_text("a file")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    assert find_environments(tmp_path, "/usr/bin/python3") == []


def ended(text: str, status: str = "error", tag: str = tags.USER_REPL_OUT) -> Record:
    return made(tag, text, {"cell": 1, "status": status})


@pytest.mark.parametrize(
    ("text", "module"),
    [
        (
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'pandas'\n",
            "pandas",
        ),
        ("ModuleNotFoundError: No module named 'sklearn.cluster'", "sklearn"),
        (
            "ModuleNotFoundError: No module named 'pandas.nothing'; 'pandas' is not a package",
            "pandas",
        ),
        ("ImportError: cannot import name 'x' from 'y'", ""),
        ("ModuleNotFoundError: No module named 'a; rm -rf ~'", ""),
        ("ModuleNotFoundError: No module named '--index-url'", ""),
        ("x" * 1_000_000, ""),
    ],
)
def test_missing_module_is_read_from_the_traceback(text: str, module: str) -> None:
    assert missing_module([ended(text)]) == module
    assert missing_module([ended(text, tag=tags.ASSISTANT_REPL_OUT)]) == module
    assert missing_module([ended(text, status="ok")]) == ""
    assert missing_module([ended(text), ended("fine", status="ok")]) == ""


def test_environment_with_the_module_is_offered_before_installing(tmp_path: Path) -> None:
    environments = [
        PythonEnvironment("venv", make(tmp_path / "venv")),
        PythonEnvironment(".venv", make(tmp_path / ".venv", "sklearn")),
    ]
    assert make_offer("sklearn", environments)[:2] == ("ask", "/python .venv")
    assert make_offer("sklearn", environments[:1])[:2] == ("python", "%pip install scikit-learn")
    assert make_offer("seaborn", environments)[:2] == ("python", "%pip install seaborn")


def test_first_screen_names_the_kernels_python(tmp_path: Path, home: Path) -> None:
    mine = str(make(home / "project" / ".venv") / "bin" / "python")
    bare, full = (
        PythonEnvironment("venv", make(tmp_path / "venv")),
        PythonEnvironment(".venv", make(tmp_path / ".venv", "pandas")),
    )
    assert welcome_text("3.12.1", mine, [], pandas=True) == (
        "3.12.1 in ~/project/.venv, with pandas",
        None,
    )
    runs, offer = welcome_text("3.12.1", "/usr/bin/python3", [bare, full], pandas=False)
    assert (runs, offer and offer.line) == (
        "3.12.1 in /usr/bin/python3, without pandas; .venv has it",
        "/python .venv",
    )
    runs, offer = welcome_text("3.12.1", "/usr/bin/python3", [bare], pandas=False)
    assert (runs, offer and offer.line) == (
        "3.12.1 in /usr/bin/python3, without pandas",
        "%pip install pandas",
    )
    runs, offer = welcome_text("3.12.1", "/usr/bin/python3", [bare], pandas=True)
    assert (runs, offer and offer.line) == (
        "3.12.1 in /usr/bin/python3, with pandas. Also found: venv",
        "/python venv",
    )


def test_greeting_suggests_actions_for_the_loaded_files(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("day,city\n1,Shiraz\n")
    (tmp_path / "app.log").write_text("ok\n" * 10_000)
    (tmp_path / "note.txt").write_text("short")

    def suggested(*names: str) -> dict[str, str]:
        files = inspect_files([tmp_path / name for name in names])
        return {mark: "".join(parts) for mark, *parts in greeting_lines(files)}

    both = suggested("note.txt", "app.log", "sales.csv")
    assert both["`"] == "begins a question: ` what stands out in sales?"
    assert "on sales" in both["Look"]
    assert 'rlm("what failed, and why?", app)' in both["Search"]
    assert suggested("app.log").keys() == {"◐", "`", "Search", "F1"}
    assert suggested("note.txt").keys() == {"◐", "`", "F1"}
    assert suggested().keys() == {"◐", "`", "F1", "Data"}
