"""A cell that shows photos of noise, about as large as can be sent."""

import os
import struct
import time
import zlib


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + name + data + struct.pack("!I", zlib.crc32(name + data))


class Photo:
    """Photos of 1,600 x 1,000 pixels, 4.8 MB."""

    def _repr_png_(self) -> bytes:
        lines = b"".join(b"\0" + os.urandom(3 * 1_600) for _ in range(1_000))
        head = struct.pack("!IIBBBBB", 1_600, 1_000, 8, 2, 0, 0, 0)
        return (
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(lines, 1))
            + chunk(b"IEND", b"")
        )


for _ in range(8):
    display(Photo())  # type: ignore[name-defined]  # noqa: F821
    time.sleep(1.2)
