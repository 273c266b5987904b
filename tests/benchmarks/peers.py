"""Installs other engines, each in its own environment because they exclude one another, and prints
their figures beside ours."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ENGINES = {"rlms": "rlms>=0.1", "dspy": "dspy>=3.4"}
_ROOT = Path(__file__).parents[2]


def main() -> None:
    engine_names = sys.argv[1:] or list(ENGINES)
    if unknown := [name for name in engine_names if name not in ENGINES]:
        raise SystemExit(f"There is no engine {unknown[0]!r}. Engines: {', '.join(ENGINES)}.")
    for name in engine_names:
        python = _environment(name)
        print(f"\n{name}\n", flush=True)
        for arguments in (["tests.benchmarks", "recursion"], ["tests.benchmarks.quality", "1"]):
            environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
            subprocess.run([python, "-m", *arguments], cwd=_ROOT, check=True, env=environment)


def _environment(engine: str) -> str:
    folder = Path(tempfile.gettempdir()) / "mahtab-tui-peers" / engine
    python = str(folder / "bin" / "python")
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "-e", str(_ROOT), ENGINES[engine]], check=True
        )
        (folder / "complete").touch()
    return python


if __name__ == "__main__":
    main()
