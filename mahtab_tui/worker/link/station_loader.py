"""Runs first on the other machine, as an argument of its Python: fetches our files over stdin,
unless they are there, and starts the station. Imports none of our modules. Older Pythons read this
file, too, to say that they are too old, so that it has no annotations and no formatted strings.

The host sees these lines: a greeting with the version of Python; then "have" or "send"."""
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

import hashlib
import io
import json
import os
import shutil
import stat
import sys
import zipfile

_MAGIC = "mahtab-far-1"
"""The first word of the greeting."""
_READ_BYTES = 65536


def _load():
    sys.stdout.write("\n%s %d.%d.%d\n" % ((_MAGIC,) + sys.version_info[:3]))  # noqa: UP031, RUF005
    sys.stdout.flush()
    if sys.version_info < (3, 9):  # noqa: UP036
        return
    wire = os.fdopen(0, "rb", buffering=0, closefd=False)
    line = wire.readline()  # byte by byte, and nothing after it
    if not line.endswith(b"\n"):
        return
    request = json.loads(line)
    cache_folder = _find_cache_folder()
    if cache_folder is None:
        return

    folder = os.path.join(cache_folder, "worker-" + request["digest"])
    folder_exists = os.path.isdir(folder)
    os.write(1, b"have\n" if folder_exists else b"send\n")
    if not folder_exists and not _fetch(wire, request, cache_folder, folder):
        return
    package = type(sys)("mahtab_worker")
    package.__path__ = [os.path.join(folder, "worker")]
    sys.modules["mahtab_worker"] = package
    from mahtab_worker.link.station import main  # type: ignore[import-not-found]

    main(folder, cache_folder)


def _find_cache_folder():
    """Return a folder that only the user can read and write; None, after a message, if there is none."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    temporary = os.environ.get("TMPDIR") or "/tmp"
    candidates = (
        os.path.join(caches, "mahtab-tui"),
        os.path.join(temporary, "mahtab-tui-%d" % os.getuid()),  # noqa: UP031
    )
    for candidate in candidates:
        try:
            os.makedirs(candidate, mode=0o700, exist_ok=True)
        except OSError:
            continue
        if _is_private(candidate):
            return candidate
    message = "No folder there can be written that belongs to you alone: not %s either.\n"
    sys.stderr.write(message % candidates[-1])
    return None


def _is_private(folder):
    """Return whether a folder belongs to the user alone, and can be written."""
    state = os.lstat(folder)
    is_own_folder = stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid()
    return is_own_folder and not state.st_mode & 0o077 and os.access(folder, os.W_OK)


def _fetch(wire, request, cache_folder, folder):
    """Unpack the files that the host sends. Return whether they are there; if not, say why."""
    data = _read(wire, request["size"])
    if data is None:
        return False
    if hashlib.sha256(data).hexdigest() != request["digest"]:
        sys.stderr.write("The data from the host arrived damaged.\n")
        return False

    draft_folder = os.path.join(cache_folder, ".new-" + os.urandom(8).hex())
    try:
        zipfile.ZipFile(io.BytesIO(data)).extractall(draft_folder)
        os.rename(draft_folder, folder)
    except OSError as error:
        shutil.rmtree(draft_folder, ignore_errors=True)
        # Another station may have unpacked them meanwhile.
        if not os.path.isdir(folder):
            message = "%s cannot be written there: %s\n"
            sys.stderr.write(message % (cache_folder, error.strerror))
            return False
    return True


def _read(wire, size):
    """Return the next bytes; None if the connection ends before."""
    pieces = []
    while size > 0:
        piece = wire.read(min(size, _READ_BYTES))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


_load()
