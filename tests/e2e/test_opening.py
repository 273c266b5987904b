"""Files and folders that the program is opened with."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.warm import command

ORDERS = "id,price\n1,10\n2,\n"


@pytest.mark.parametrize(
    "how",
    [["orders.csv", "--model", "demo"], ["--model", "demo", "--load", "orders.csv"]],
    ids=["named", "option"],
)
def test_file_is_loaded_by_a_visible_cell(start: Start, project: Path, how: list[str]) -> None:
    (project / "orders.csv").write_text(ORDERS)
    screen = start(*how)
    screen.wait(r"pd\.read_csv\('orders\.csv'\)")
    screen.wait(r"orders +2 × 2 +DataFrame +❯ 1")
    screen.enter("len(Out), _ if '_' in globals() else 'nothing'")
    screen.wait(r"\(0, 'nothing'\)")


def test_file_is_a_list_of_dicts_without_pandas(start: Start, project: Path) -> None:
    venv.create(project / "plain", with_pip=False)
    (project / "orders.csv").write_text(ORDERS)
    screen = start("orders.csv", "--model", "demo", "--python", "plain", "--approval", "auto")
    screen.wait(r"csv\.DictReader\(open\('orders\.csv'")
    screen.wait(r"orders +list +2 items")
    screen.wait("kernel .*idle")
    screen.enter("`how many rows have no price?")
    screen.wait("1 of 2 rows have no price")


def test_folder_becomes_the_working_directory(start: Start, project: Path) -> None:
    (project / "sales").mkdir()
    (project / "app.txt").write_text("x = 1\n")
    (project / "sales" / ".mahtab").mkdir()
    (project / "sales" / ".mahtab" / "config.toml").write_text(
        'theme = "mahtab-day"\nmodel = "claude"\n'
    )
    screen = start("sales", "app.txt", "--model", "demo")
    screen.wait("mahtab +sales")
    screen.wait("config trust")  # the project of that folder: nothing of it is trusted by itself
    screen.wait(r"app +str")
    screen.enter("import os; os.path.basename(os.getcwd())")
    screen.wait("'sales'")


def test_unloadable_file_is_reported_and_the_screen_continues(start: Start, project: Path) -> None:
    (project / "bad.json").write_text("{")
    (project / "blob.bin").write_bytes(bytes(range(256)))
    screen = start("bad.json", "blob.bin", "--model", "demo", lines=60)
    screen.wait("bad.json could not be loaded: the cell above shows why")
    screen.wait("blob.bin is not a text file: blob is its path")
    screen.enter("6 * 7")
    screen.wait("▌ 42")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["docter"], "There is no file, folder or command docter. Did you mean doctor?"),
        (["none.csv", "--model", "demo"], "There is no file, folder or command none.csv."),
        (["--load", "none.csv"], "There is no file none.csv."),
        (["one", "two"], "Give only one folder to work in: one or two."),
        (["ask", "x", "--load", "none.csv"], "There is no file none.csv."),
    ],
)
def test_missing_file_gives_one_sentence(project: Path, words: list[str], message: str) -> None:
    for folder in ("one", "two"):
        (project / folder).mkdir()
    done = subprocess.run(
        [*command(), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"mahtab-tui: {message}")
    assert done.stderr.count("\n") == 1


def test_first_screen_shows_data_model_and_python_and_a_key_accepts_them(
    start: Start, project: Path
) -> None:
    venv.create(project / "plain", with_pip=False)
    screen = start("--model", "demo", "--python", "plain", lines=24)
    screen.wait(r"Data +mahtab-tui data\.csv")
    screen.wait(r"Model +demo: offline, canned rules\. Type /model")
    screen.wait(r"Python +3\.\S+ in(?s:.*)plain, without pandas\. Alt\+I: %pip install pandas")
    screen.send("\x1bi")
    screen.wait("❯ %pip install pandas")
    screen.press("ctrl+c")
    screen.wait_gone("❯ %pip")
    screen.enter("import seaborn")
    screen.wait("This Python has no seaborn. Alt\\+I puts %pip install seaborn")
    screen.type("draft")
    screen.send("\x1bi")
    screen.wait("Clear the input first")
    screen.wait("❯ draft")


def test_project_python_is_offered_but_started_only_by_the_user(
    start: Start, project: Path
) -> None:
    venv.create(project / "plain", with_pip=False)
    venv.create(project / ".venv", with_pip=False)
    (next((project / ".venv").glob("lib/python3*/site-packages")) / "numpy.py").write_text(
        "here = True\n"
    )
    screen = start("--model", "demo", "--python", "plain")
    screen.wait("kernel .*idle")
    screen.enter("import numpy")
    screen.wait(r"\.venv has numpy; this Python does not")
    screen.wait("kernel 3.* plain +idle|kernel 3.*idle")
    screen.send("\x1bi")
    screen.wait(r"◈ /python \.venv")
    screen.press("enter")
    screen.wait(r"venv/bin/python\s+\(Python\s+3\.\S+\)\.")


@pytest.mark.parametrize("module", ["pandas", "csv"])
def test_opening_a_file_runs_nothing_in_its_folder(
    start: Start, project: Path, module: str
) -> None:
    (project / "data.csv").write_text("a,b\n1,2\n")
    (project / f"{module}.py").write_text("open('ran', 'w').close()\n")
    screen = start("data.csv", "--model", "demo")
    screen.wait(r"data\s+(DataFrame|list)")
    assert not (project / "ran").exists()
