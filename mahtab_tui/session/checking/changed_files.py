"""Names the files that have changed since a cell ran whose code names them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from mahtab_tui.session.checking.project_copy import MAX_NAMED_PATHS
from mahtab_tui.session.checking.recorded import RecordedCell

_QUOTED_TEXT = re.compile(r"""(?<=['"])[^'"\n]{1,4096}(?=['"])""")
"""What stands between two quotation marks of a line, such as a path."""
_UNQUOTED_WORD = re.compile(r"""[^\s'"`/\\()\[\]{},;=<>|&:]+""")
"""A word without separators, as which a command such as ``!cat a.csv`` names a file."""


def describe_changed_files(
    cells: Sequence[RecordedCell], modified_at: Mapping[str, float]
) -> Iterator[str]:
    """Yield a sentence for each file that a cell names and that was changed after the cell had run.

    The files that were changed last come first, and only a few are named.

    Args:
        cells: The cells of the session or the notebook.
        modified_at: When each file was changed, in seconds since the epoch, by its path in the
            project.
    """
    names_by_cell = [_mentioned_names(cell.code) for cell in cells]
    newest_paths = sorted(modified_at, key=modified_at.__getitem__, reverse=True)
    sentence_count = 0
    for path in newest_paths:
        file_name = os.path.basename(path)
        for cell, mentioned_names in zip(cells, names_by_cell, strict=True):
            ran_at = cell.outcome.time
            has_changed = ran_at is not None and modified_at[path] > ran_at
            if has_changed and file_name in mentioned_names:
                yield f"{path} has changed since {cell.name}, which names it, ran."
                sentence_count += 1
                break
        if sentence_count == MAX_NAMED_PATHS:
            return


def _mentioned_names(code: str) -> set[str]:
    """Return the names by which code may mean files: the last parts of quoted paths, and words with
    a dot."""
    quoted_names = {os.path.basename(text) for text in _QUOTED_TEXT.findall(code)}
    words_with_dot = {word for word in _UNQUOTED_WORD.findall(code) if "." in word}
    return quoted_names | words_with_dot
