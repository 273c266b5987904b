"""Random programs over nested containers, arrays and frames: run, undo, and compare.

``nice python -m tests.random_undo 2000`` runs 2,000 programs, prints the seeds that differ, and
exits with 1 then."""

from __future__ import annotations

import argparse
import difflib
import random
import sys
from pathlib import Path

from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.process import ProcessKernel
from tests.integration.kernels import Cells, running

_PROGRAM = Path(__file__).with_name("undo_program.py")
_LOAD = f"import importlib.util, sys\nspec = importlib.util.spec_from_file_location('undo_program', {str(_PROGRAM)!r})\nmodule = importlib.util.module_from_spec(spec)\nsys.modules['undo_program'] = module\nspec.loader.exec_module(module)\nprobe = module.Probe(globals())\ndel spec, module"
_MODULE = "__import__('undo_program')"


def prepare(cells: Cells, verbose: bool = False) -> None:
    cells.text(_LOAD + f"\nprobe.verbose = {verbose}")


def difference(cells: Cells, seed: int, verbose: bool = False) -> str:
    rng = random.Random(seed)
    cells.text(
        f"[globals().pop(name, None) for name in {_MODULE}.NAMES]; {_MODULE}.Plain.shared = None; {_MODULE}.change(globals(), {seed}, {rng.randrange(5, 40)})"
    )
    states = [_digest(cells)]
    numbers = []
    for cell in range(rng.randrange(1, 4)):
        cells.text(f"{_MODULE}.change(globals(), {seed * 10 + cell}, {rng.randrange(1, 15)})")
        numbers.append(cells.number)
        states.append(_digest(cells))
    back = rng.randrange(len(numbers))
    done = cells.kernel.undo(numbers[back])
    if not done.exact:
        return f"seed {seed}: not exact: {done.not_restored}"
    differences = []

    def compare(expected_digest: str, step: str) -> None:
        if (digest := _digest(cells)) != expected_digest:
            differences.append(f"seed {seed}: {step} differs")
            if verbose:
                differences.extend(
                    difflib.unified_diff(
                        expected_digest.splitlines(), digest.splitlines(), n=2, lineterm=""
                    )
                )

    if rng.random() < 0.5:
        cells.kernel.redo()
        compare(states[-1], "redo")
        cells.kernel.undo(numbers[back])
    compare(states[back], f"undo of {len(numbers) - back} cells")
    return "\n".join(differences)


def _digest(cells: Cells) -> str:
    inspection = cells.kernel.inspect("probe")
    assert not inspection.error, inspection.error
    return inspection.text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--verbose", action="store_true", help="show what differs")
    chosen = parser.parse_args()
    failed = 0
    with running(ProcessKernel()) as cells:
        prepare(cells, chosen.verbose)
        for seed in range(chosen.seed, chosen.seed + chosen.programs):
            try:
                differences = difference(cells, seed, chosen.verbose)
            except (AssertionError, KernelError) as error:
                differences = f"seed {seed}: {error}"
            if differences:
                failed += 1
                print(differences, flush=True)
    print(f"{chosen.programs} programs, {failed} with a difference")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
