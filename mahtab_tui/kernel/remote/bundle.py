"""The kernel's side as one file that is sent to another machine."""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import mahtab_tui.kernel.worker as worker
from mahtab_tui.kernel.launch import cloudpickle_folder


class Bundle(NamedTuple):
    """A zip file with the folders ``worker`` and ``cloudpickle``."""

    data: bytes
    digest: str
    """SHA-256, in hexadecimal."""


@functools.cache
def bundle() -> Bundle:
    """Pack the files. The same files make the same bytes, so that they are known there by their
    digest. Raises `KernelError`."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder, name in (
            (Path(worker.__file__).parent, "worker"),
            (Path(cloudpickle_folder()), "cloudpickle"),
        ):
            for file in sorted(folder.rglob("*.py")):
                entry = zipfile.ZipInfo(f"{name}/{file.relative_to(folder).as_posix()}")
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes())
    data = packed.getvalue()
    return Bundle(data, hashlib.sha256(data).hexdigest())
