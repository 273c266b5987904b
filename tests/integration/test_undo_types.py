"""Each type of the standard library that can be made is restored by an undo, or named: a digest
decides that uses nothing of undo."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.kernels import Cells

_SOURCE = Path(__file__).parents[1] / "undo_types.py"
_DIGESTS = "__import__('undo_types').write({name: globals()[name] for name in NAMES}, PATH)"


def test_each_type_of_the_standard_library_is_restored_or_named(cells: Cells) -> None:
    """The functions live in a module that undo leaves alone."""
    Path("site-packages").mkdir()
    Path("site-packages/undo_types.py").write_text(_SOURCE.read_text())
    cells.text(
        f"import sys; sys.path.insert(0, {str(Path('site-packages').resolve())!r}); import undo_types; globals().update(undo_types.make())"
    )
    names = json.loads(
        cells.text(
            "import json; print(json.dumps([name for name in globals() if name.startswith('of_')]))"
        ).splitlines()[-1]
    )
    assert len(names) > 300

    def digests(number: int) -> dict[str, str]:
        path = Path(f"digests{number}.json").resolve()
        cells.text(_DIGESTS.replace("NAMES", repr(names)).replace("PATH", repr(str(path))))
        found: dict[str, str] = json.loads(path.read_text())
        return found

    digests(0)  # looking at an object for the first time may change it
    before = digests(1)
    cells.text("\n".join(f"undo_types.change({name})" for name in names))
    cell = cells.number
    changed = digests(2)
    done = cells.kernel.undo(cell)
    after = digests(3)
    named = {each.name for each in done.kept_as_is}
    differing = {name for name in names if before[name] != changed[name]}
    assert len(differing) > 100
    assert len(differing - named) > 80, "undo names nearly everything"
    assert [
        (name, before[name], after[name])
        for name in names
        if before[name] != after[name] and name not in named
    ] == []
