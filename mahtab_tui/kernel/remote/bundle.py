"""The files that another machine needs to run a kernel."""

from __future__ import annotations

import functools
import io
import zipfile
from pathlib import Path

import mahtab_tui.worker as worker
from mahtab_tui.kernel.launch import cloudpickle_folder


@functools.cache
def bundle() -> bytes:
    """Pack the worker and cloudpickle as a zip file.

    The same files give the same bytes, so that the other machine recognises them. Raises
    `KernelError`.
    """
    packed = io.BytesIO()
    folders = {"worker": Path(worker.__file__).parent, "cloudpickle": Path(cloudpickle_folder())}
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, folder in folders.items():
            for file in sorted(folder.rglob("*.py")):
                entry = zipfile.ZipInfo(f"{name}/{file.relative_to(folder).as_posix()}")
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes())
    return packed.getvalue()
