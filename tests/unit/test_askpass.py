"""The program by which ssh asks the user, and the server that answers it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.remote.address import parse_address
from mahtab_tui.kernel.remote.askpass import Ask, AskpassServer
from mahtab_tui.kernel.remote.transport import open_transport


def run_program(server: AskpassServer, question: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program as ssh does."""
    return subprocess.run(
        [server.env["SSH_ASKPASS"], question],
        env={**os.environ, **server.env},
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )


def ask_by_program(ask: Ask, question: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program with a server of its own."""
    server = AskpassServer(ask)
    try:
        return run_program(server, question)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("answer", "output"), [("secret", b"secret\n"), ("", b"\n"), ("\udcff", b"\xff\n")]
)
def test_answer_is_printed_for_ssh(answer: str, output: bytes) -> None:
    process = ask_by_program(lambda prompt, hidden: answer, "Password:")
    assert (process.returncode, process.stdout) == (0, output)


def test_no_answer_is_a_failure() -> None:
    process = ask_by_program(lambda prompt, hidden: None, "Password:")
    assert (process.returncode, process.stdout) == (1, b"")


def test_an_answer_that_is_no_text_is_a_failure_and_the_next_one_arrives() -> None:
    answers = iter(["\ud800", "secret"])
    server = AskpassServer(lambda prompt, hidden: next(answers))
    try:
        processes = [run_program(server, "Password:") for _ in range(2)]
    finally:
        server.close()
    assert [process.returncode for process in processes] == [1, 0]
    assert processes[1].stdout == b"secret\n"


@pytest.mark.parametrize(
    ("question", "is_hidden"), [("Password:", True), ("Go on (yes/no)?", False)]
)
def test_only_a_confirmation_is_shown_while_it_is_typed(question: str, is_hidden: bool) -> None:
    questions: list[tuple[str, bool]] = []

    def ask(prompt: str, hidden: bool) -> str:
        questions.append((prompt, hidden))
        return "yes"

    ask_by_program(ask, question)
    assert questions == [(question, is_hidden)]


def test_long_temporary_folder_is_named_as_the_reason_and_stays_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(KernelError, match="cannot be written: AF_UNIX path too long"):
        open_transport(parse_address("command: true"), {}, lambda prompt, hidden: None)
    assert list(folder.iterdir()) == []
