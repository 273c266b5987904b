"""Logins to servers, kept for later sessions in a file that only the user can read. Loads nothing
of the SDK."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LARGEST = 1_000_000
"""Bytes of the file."""
_SECRET = ("access_token", "refresh_token", "client_secret")


class KeptLogins:
    """Saved logins by the server's address. Any thread may call it."""

    def __init__(self, path: Path | None, add_secret: Callable[[str], None]) -> None:
        """path: None keeps logins for this session only. add_secret: called with what has to be
        masked from now on."""
        self._path = path
        self._add_secret = add_secret
        self._lock = threading.Lock()
        self._logins: dict[str, dict[str, Any]] = {}
        """Logins of this session, if there is no file."""

    def get(self, url: str) -> dict[str, Any]:
        """Return what is kept of the login to a server; empty if nothing is."""
        with self._lock:
            kept = self._read().get(url)
        self._mask(kept)
        return kept if isinstance(kept, dict) else {}

    def keep(self, url: str, **changes: Any) -> None:
        """Change what is kept of a login. Raises `OSError`."""
        self._mask(changes)
        with self._lock:
            logins = self._read()
            before = logins.get(url)
            logins[url] = {**(before if isinstance(before, dict) else {}), **changes}
            self._write(logins)

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return self._logins
        try:
            with self._path.open("rb") as file:
                logins = json.loads(file.read(_LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        return logins if isinstance(logins, dict) else {}

    def _write(self, logins: dict[str, Any]) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        handle, draft = tempfile.mkstemp(
            dir=self._path.parent, prefix=".logins"
        )  # which only the user can read
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(logins, file)
            os.replace(draft, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise

    def _mask(self, kept: object) -> None:
        if isinstance(kept, dict):
            for name, value in kept.items():
                if name in _SECRET and isinstance(value, str):
                    self._add_secret(value)
                self._mask(value)
