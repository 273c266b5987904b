"""The interpreter, the folder and the number of this process."""

from __future__ import annotations

import os
import sys

from .frames import Frame


def working_directory() -> str:
    """Return the working directory; empty if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def python_version() -> str:
    """Return this interpreter's version, such as ``3.12.1``."""
    return ".".join(map(str, sys.version_info[:3]))


def describe_process() -> Frame:
    """Return the fields of the first message to a host (`kernel.messages.KernelReady`)."""
    return {
        "python": python_version(),
        "executable": sys.executable,
        "cwd": working_directory(),
        "pid": os.getpid(),
    }
