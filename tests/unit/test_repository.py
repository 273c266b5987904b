"""Files under version control."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from mahtab_tui import manual

ALLOWED = set(
    ".ci .github .gitignore .pre-commit-config.yaml ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md"
    " LICENSE README.md mahtab_tui mkdocs.yml pyproject.toml skills styles tests".split()
)
ROOT = Path(__file__).parents[2]


def test_top_level_has_only_known_files() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    listed = subprocess.run([git, "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip(listed.stderr)
    assert {path.split("/")[0] for path in listed.stdout.splitlines()} == ALLOWED


def test_workflow_tests_the_python_versions_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    named_versions = [
        "3." + classifier.removeprefix(prefix)
        for classifier in project["classifiers"]
        if classifier.startswith(prefix)
    ]
    workflow = ROOT / ".github/workflows/ci.yml"
    if not workflow.exists():
        pytest.skip("an sdist")
    job = yaml.safe_load(workflow.read_text())["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == named_versions
    assert job["steps"][-1]["run"] == ".ci/run"


@pytest.mark.slow
def test_manual_builds_as_a_site_without_a_warning(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert not built.returncode, built.stderr
    pages = {page.stem for page in tmp_path.glob("*.html")}
    assert pages == {"404", "index", *manual.TOPICS}
    pictures = {path.name for path in Path(manual.__file__).with_name("pictures").iterdir()}
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == pictures
    for page in tmp_path.glob("*.html"):
        for address in re.findall(r'(?:src|srcset)="(pictures/[^"]+)"', page.read_text("utf-8")):
            assert (tmp_path / address).exists(), f"{page.stem} shows {address}"
            pictures.discard(Path(address).name)
    assert not pictures, "no page shows them"
