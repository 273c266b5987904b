"""Jupyter kernels that another program has started."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path

import pytest

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.jupyter.kernel import jupyter_kernel
from tests.integration.jupyter import cells_at, running_kernel, start, value_for

BROKEN = [
    "",
    "{}",
    "[1]",
    "no json",
    '{"transport": "odd", "shell_port": 1}',
    '{"shell_port": "x"}',
]


def test_missing_connection_file_gives_one_sentence() -> None:
    with pytest.raises(KernelError, match=r"^There is no connection file /nothing.json\.$"):
        start("existing:/nothing.json")


@pytest.mark.parametrize("address", ["jupyter+http://hub/?token=secret", "jupyter:", "existing: "])
def test_malformed_address_gives_one_sentence_without_secrets(address: str) -> None:
    with pytest.raises(KernelError, match=r"^[^\n]+\. Use jupyter:NAME or [^\n]+\.$") as raised:
        start(address)
    assert "secret" not in str(raised.value)


def test_kernel_of_another_program_is_shared_and_left_unchanged(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as (file, client, process):
        names = "sorted(__import__('builtins').__dict__), sorted(globals()), len(__import__('sys').meta_path)"
        client.execute_interactive("theirs = 1", timeout=60)
        names_before = value_for(client, names)
        with cells_at(f"existing:{file}") as cells:
            assert cells.text("theirs") == "1\n"
            assert {variable.name for variable in cells.kernel.variables()} == {"theirs"}
            cells.run("ours = 2")
            assert value_for(client, "ours")["data"]["text/plain"] == "2"
            result = cells.interrupt_after("go", "print('go')\nwhile True: pass")
            assert result.status is Status.INTERRUPTED
            with pytest.raises(KernelError, match="Only the program that started"):
                cells.kernel.reset()
            cells.run("del ours; Out.clear()")
        names_after = value_for(client, names)
        assert process.poll() is None
        new = _words(names_after) - _words(names_before)
        assert all(re.fullmatch(r"_i{1,3}|_i?\d|2", word) for word in new), new


def test_death_of_another_programs_kernel_gives_one_sentence(tmp_path: Path) -> None:
    threads_before = threading.enumerate()
    with running_kernel(tmp_path) as (file, _, process), cells_at(f"existing:{file}") as cells:
        result = cells.run_until("go", process.kill, "print('go')\nimport time; time.sleep(60)")
        assert result.status is Status.DIED
        assert result.detail == f"The kernel of {file} no longer answers."
        assert cells.run("1").detail == result.detail
    new_threads = {*threading.enumerate()} - {*threads_before}
    assert "mahtab-jupyter" not in {thread.name for thread in new_threads}


def test_connection_file_of_a_dead_kernel_gives_one_sentence(tmp_path: Path) -> None:
    with running_kernel(tmp_path) as (file, _, _process):
        pass
    with pytest.raises(KernelError, match="no longer answers"):
        start(f"existing:{file}")


@pytest.mark.parametrize("text", [*BROKEN, '{"key": 5}'])
def test_broken_connection_file_gives_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(text)
    with pytest.raises(KernelError, match=r"(?s)^The connection file .* is broken: .*\.$"):
        start(f"existing:{file}")


def test_missing_libraries_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "mahtab_tui.kernel.jupyter.local", raising=False)
    monkeypatch.setitem(sys.modules, "jupyter_client.kernelspec", None)
    with pytest.raises(KernelError, match=r"^Kernels of Jupyter need .* mahtab-tui\[jupyter\]\.$"):
        jupyter_kernel("jupyter:python3", "/", "")


def _words(reply: dict[str, dict[str, str]]) -> set[str]:
    return set(re.findall(r"\w+", reply["data"]["text/plain"]))
