"""Names that an error suggests."""

from __future__ import annotations

import pytest

from mahtab_tui.worker.cells.suggestions import nearest


@pytest.mark.parametrize(
    ("name", "suggestions"), [("%", []), ("__", []), ("cuont", ["count"]), ("COUNT %", ["count"])]
)
def test_a_name_suggests_similar_ones_but_none_if_it_has_only_signs(
    name: str, suggestions: list[str]
) -> None:
    assert nearest(name, ["#", "_", "count"]) == suggestions
