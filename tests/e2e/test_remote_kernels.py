"""A kernel elsewhere, in a real terminal: it starts, its wire is cut and comes back, and the user
moves it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import warm
from tests.e2e.conftest import Start
from tests.integration.remote import Road

IDLE = r"● kernel .*idle"


def address(road: Road) -> str:
    return road.address.text


def test_cell_continues_while_disconnected(start: Start, tmp_path: Path) -> None:
    (tmp_path / "road").mkdir()
    road = Road(tmp_path / "road")
    screen = start("--model", "demo", "--kernel", address(road), columns=140, lines=35)
    screen.wait(IDLE)
    screen.wait(r"kernel .* on python")
    (road.folder / "refuse").touch()
    screen.enter(
        "import time\nfor i in range(40): print('line', i, flush=True); time.sleep(0.05)\n"
    )
    screen.press("enter")
    screen.wait("line 3")
    road.break_wire()
    screen.wait(r"disconnected, trying again \(\d+ s\)")
    (road.folder / "refuse").unlink()
    screen.wait("line 39")
    screen.wait(IDLE)
    screen.enter("6 * 7")
    screen.wait(r"\b42\b")
    assert screen.leave() == 0


def test_slash_kernel_moves_the_kernel_back_and_forth(start: Start, tmp_path: Path) -> None:
    (tmp_path / "road").mkdir()
    road = Road(tmp_path / "road")
    screen = start("--model", "demo", columns=140, lines=35)
    screen.wait(IDLE)
    screen.enter("here = 1")
    screen.type("`")
    screen.enter(f"/kernel {address(road)}")
    screen.wait(r"kernel .* on python.*idle")
    screen.enter("/kernel nowhere")
    screen.wait("nowhere is not a kernel address")
    screen.enter("/kernel here")
    screen.wait("Switched to this machine")
    assert screen.leave() == 0


def test_local_file_is_refused_with_a_sentence(project: Path) -> None:
    (project / "data.csv").write_text("a\n1\n")
    done = subprocess.run(
        [*warm.command(), "data.csv", "--kernel", "ssh://host"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 2
    assert "data.csv is on this machine, but the kernel runs on another (ssh://host)" in " ".join(
        done.stderr.split()
    )


def test_kernels_clean_lists_removed_files(tmp_path: Path) -> None:
    (tmp_path / "road").mkdir()
    road = Road(tmp_path / "road")
    command = [*warm.command(), "kernels", "clean", address(road), "--yes"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "Removed:" in done.stdout
    road.kernel()
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    road.close()
    assert (
        done.returncode,
        "1 kernel is running there. Close their sessions first" in " ".join(done.stderr.split()),
    ) == (1, True)
    refused = subprocess.run(
        [*warm.command(), "kernels", "clean", "nowhere"],
        input="y\n",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert refused.returncode == 1
    assert "nowhere is not a kernel address" in " ".join(refused.stderr.split())
