"""The three commands of the manual's page about Jupyter, as they stand there but for the names of
machines and files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.integration.jupyter import TOKEN, jupyter_server, running_kernel
from tests.manual import FOLDER

COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for line in (FOLDER / "kernels.md").read_text("utf-8").splitlines()
    if line.startswith("mahtab-tui --kernel") and ("jupyter" in line or "existing" in line)
]
HERE, SERVER, EXISTING = (
    "jupyter:python3",
    "jupyter+https://hub.example/user/me",
    "existing:kernel-1234.json",
)


@pytest.fixture
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Replacements for names in the manual: a real server, and a kernel that another program has
    started."""
    folder = tmp_path_factory.mktemp("jupyter")
    with jupyter_server(folder) as server, running_kernel(folder) as (file, client, _):
        client.execute_interactive("theirs = 'of another program'", timeout=60)
        yield {HERE: HERE, SERVER: f"{server.address}?token={TOKEN}", EXISTING: f"existing:{file}"}


def test_each_command_runs_cells_in_its_kernel(
    start: Start, addresses: dict[str, str], project: Path
) -> None:
    assert [words[-1] for words in COMMANDS] == [HERE, SERVER, EXISTING]
    for option, name in COMMANDS:
        screen = start(option, addresses[name], "--model", "demo")
        screen.wait("kernel .* idle")
        screen.enter("'theirs' in globals(), 'ipykernel' in __import__('sys').modules")
        screen.wait(rf"\({name == EXISTING}, True\)")
        assert TOKEN not in screen.text
        assert screen.leave() == 0
