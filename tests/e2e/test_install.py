"""The wheel and the sdist, built, installed in a new environment, and started."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.xdist_group("install"), pytest.mark.slow]


@pytest.fixture(autouse=True)
def no_python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore a PYTHONPATH, which could lead to the checkout."""
    monkeypatch.delenv("PYTHONPATH", raising=False)


def build(source: Path, to: Path) -> Path:
    """Build an sdist of a folder, and a wheel from it, without the network; return the wheel."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(to), str(source)],
        check=True,
        capture_output=True,
    )
    return next(to.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel in a new environment, which shares our dependencies."""
    folder = tmp_path_factory.mktemp("install")
    wheel = build(ROOT, folder / "dist")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    base = str(folder / "venv")
    purelib = sysconfig.get_path("purelib", vars={"base": base, "platbase": base})
    Path(purelib, "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = (
        f"{sys.executable} -m pip --python {python} install --no-deps --no-index --quiet {wheel}"
    )
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(install.split(), check=True, env=environment)
    return python


def test_an_installed_program_finds_its_styles_skills_and_manual(
    installed: Path, project: Path
) -> None:
    code = (
        "import mahtab_tui; from mahtab_tui.settings.model import resource_folder;"
        "print(mahtab_tui.__file__); print((resource_folder('styles') / 'app.tcss').is_file());"
        "print((resource_folder('skills') / 'debug' / 'SKILL.md').is_file());"
        "from mahtab_tui.manual import TOPICS, page; print(all(page(topic).text for topic in TOPICS))"
    )
    done = subprocess.run([installed, "-c", code], capture_output=True, text=True, check=True)
    package_folder, *files_exist = done.stdout.split()
    assert package_folder.startswith(str(installed.parent.parent))
    assert files_exist == ["True", "True", "True"]


def test_installed_program_prints_its_version(installed: Path, project: Path) -> None:
    command = [str(installed.with_name("mahtab-tui")), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mahtab-tui 0.")


@pytest.mark.parametrize("command", [["mahtab-tui"], ["python", "-m", "mahtab_tui"]])
def test_an_installed_program_opens_and_runs_a_cell(
    installed: Path, project: Path, command: list[str]
) -> None:
    argv = [str(installed.with_name(command[0])), *command[1:], "--model", "demo"]
    with Terminal(argv, cwd=project) as screen:
        screen.idle()
        screen.enter("6 * 7", r"\b42\b")
        screen.leave()
