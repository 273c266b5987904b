"""A checkpoint that saves what the kernel had, if the kernel dies before the end of its cell."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from mahtab_tui.worker.undo import checkpoint_process
from mahtab_tui.worker.undo.checkpoint_server import Rescue

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells of the kernel's death")

KERNEL_DIED = signal.SIGUSR2
"""What Linux sends to an armed checkpoint then."""


def test_checkpoint_saves_if_the_kernel_dies_before_it_is_disarmed(tmp_path: Path) -> None:
    rescue = Rescue(lambda: None, (tmp_path / "saved").touch)
    checkpoint = checkpoint_process.fork(str, rescue)
    os.kill(checkpoint.pid, KERNEL_DIED)
    checkpoint.wait()
    assert (tmp_path / "saved").exists()
    checkpoint.end()


def test_disarmed_checkpoint_answers_and_saves_nothing(tmp_path: Path) -> None:
    rescue = Rescue(lambda: None, (tmp_path / "saved").touch)
    checkpoint = checkpoint_process.fork(str, rescue)
    checkpoint.disarm()
    assert checkpoint.ask(5, 60) == "5"
    os.kill(checkpoint.pid, KERNEL_DIED)
    checkpoint.wait()
    assert not (tmp_path / "saved").exists()
    checkpoint.end()


def test_kernel_that_dies_while_the_message_is_read_is_not_rescued(tmp_path: Path) -> None:
    read = os.read

    def read_before_death(fd: int, size: int) -> bytes:
        data = read(fd, size)
        signal.raise_signal(KERNEL_DIED)
        return data

    def prepare() -> None:
        # In the process of the checkpoint only.
        os.read = read_before_death

    checkpoint = checkpoint_process.fork(str, Rescue(prepare, (tmp_path / "saved").touch))
    checkpoint.disarm()
    checkpoint.wait()
    assert not (tmp_path / "saved").exists()
    checkpoint.end()
