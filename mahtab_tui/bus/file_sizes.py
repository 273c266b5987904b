"""Sizes of files, in words."""

from __future__ import annotations


def format_size(byte_count: float) -> str:
    """Format a number of bytes with a decimal prefix: ``1.2 MB``."""
    if byte_count < 1000:
        return f"{byte_count} B"
    power = 1
    while power < 4 and byte_count >= 1000 ** (power + 1):
        power += 1
    return f"{byte_count / 1000**power:.1f} {'kMGT'[power - 1]}B"
