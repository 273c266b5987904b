"""Names the files of a folder in one line, for a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mahtab_tui.bus.file_sizes import format_size
from mahtab_tui.kernel.values import FolderEntry, FolderListing

_DIGITS = re.compile(r"[0-9]+")
_MIN_GROUP_SIZE = 4
"""Fewer files, or folders, whose names differ only in digits are named one by one."""


def render_folder(listing: FolderListing, max_items: int) -> str:
    """Return the names and sizes of files and folders in one line.

    Files whose names differ only in their digits stand together.

    Args:
        listing: The content of the folder.
        max_items: Maximum files, folders and groups of files that are named; the others are counted.
    """
    named_groups = _group_entries(listing.entries)[:max_items]
    descriptions = [_describe_group(entries) for entries in named_groups]
    omitted_count = listing.total - sum(map(len, named_groups))
    if omitted_count > 0:
        descriptions.append(f"… and {omitted_count:,} more")
    return ", ".join(descriptions)


def _group_entries(entries: Iterable[FolderEntry]) -> list[list[FolderEntry]]:
    """Group the files whose names differ only in digits, and the folders too, if there are at least
    `_MIN_GROUP_SIZE`. All others form groups of one."""
    entries_by_form: dict[tuple[str, bool], list[FolderEntry]] = {}
    for entry in entries:
        form = _DIGITS.sub("0", entry.name)
        is_folder = entry.size is None
        entries_by_form.setdefault((form, is_folder), []).append(entry)

    groups: list[list[FolderEntry]] = []
    for alike_entries in entries_by_form.values():
        if len(alike_entries) >= _MIN_GROUP_SIZE:
            groups.append(alike_entries)
        else:
            groups.extend([entry] for entry in alike_entries)
    return groups


def _describe_group(entries: Sequence[FolderEntry]) -> str:
    """Return ``a.csv (1.1 kB)``, ``data/``, or ``a-00.log … a-39.log (40 files, 1.0–1.1 kB)``."""
    first = entries[0]
    last = entries[-1]
    is_single = len(entries) == 1
    sizes = [entry.size for entry in entries if entry.size is not None]
    if not sizes and is_single:
        return f"{first.name}/"
    if not sizes:
        return f"{first.name}/ … {last.name}/ ({len(entries):,} folders)"

    size_range = _format_size_range(min(sizes), max(sizes))
    if is_single:
        return f"{first.name} ({size_range})"
    if min(sizes) == max(sizes):
        size_range += " each"
    return f"{first.name} … {last.name} ({len(entries):,} files, {size_range})"


def _format_size_range(min_bytes: int, max_bytes: int) -> str:
    """Return ``1.1 kB``, ``1.0–1.1 kB`` or ``10 B–9.9 kB``."""
    smallest = format_size(min_bytes)
    largest = format_size(max_bytes)
    if smallest == largest:
        return smallest
    smallest_number, _, smallest_unit = smallest.partition(" ")
    _, _, largest_unit = largest.partition(" ")
    if smallest_unit == largest_unit:
        return f"{smallest_number}–{largest}"
    return f"{smallest}–{largest}"
