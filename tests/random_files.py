"""Random programs that change files: run, undo, redo, and compare with what the folder was.

``nice python -m tests.random_files 1000`` runs 1,000 programs, prints the seeds whose undo left a
difference without naming it, lost what somebody else wrote, or did something else than its preview,
and exits with 1 then."""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus.values import Status
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.kernel.values import FileWatching, Restoration
from tests.integration.kernels import Cells, running
from tests.waiting import wait_for

_FILES = ("f0", "f1", "f2", "d0/f0", "d0/f1", "d1/f2", "d1/sub/f0")
_FOLDERS = ("d0", "d1", "d1/sub", "d2")
_LINKS = ("l0", "l1", "d0/l0")
_FOREIGN = b"foreign"
"""The first word of what somebody else writes."""
_FOREIGN_ACTIONS = "write write write append append replace replace remove rename link mark move"
_FOREIGN_TEXT = re.compile(_FOREIGN + rb"-[0-9]+")

_PREPARE = """import mmap, os, pathlib, shutil, sqlite3, subprocess, threading
handles = []
def sh(command): subprocess.run(command, shell=True, stderr=subprocess.DEVNULL)
def keep(handle): handles.append(handle)
def exchange(*names):
    names = list(dict.fromkeys(names))
    for name in names: os.rename(name, f'{name}-moved')
    for old, new in zip(names, names[1:] + names[:1]): os.rename(f'{old}-moved', new)
def close_all():
    for handle in handles: handle.close()
    handles.clear()
"""

_STATEMENTS = """
    pathlib.Path(FILE).write_text(TEXT)
    pathlib.Path(FILE).write_text(TEXT)
    pathlib.Path(FILE).write_bytes(os.urandom(SIZE))
    open(FILE, 'a').write(TEXT)
    f = open(FILE, 'r+b'); f.seek(2); f.write(b'XX'); f.close()
    open(FILE, 'x').close()
    os.truncate(FILE, 3)
    f = os.open(FILE, os.O_RDONLY | os.O_TRUNC); os.close(f)
    f = os.open(FILE, os.O_WRONLY | os.O_CREAT); os.pwrite(f, TEXT.encode(), 5); os.close(f)
    os.rename(FILE, FILE)
    os.replace(FILE, FILE)
    pathlib.Path('draft').write_text(TEXT); os.replace('draft', FILE)
    os.unlink(FILE)
    os.unlink(FILE)
    os.unlink(FILE); pathlib.Path(FILE).write_text(TEXT)
    os.link(FILE, FILE)
    os.link(FILE, FILE); open(FILE, 'a').write(TEXT)
    exchange(FILE, FILE)
    exchange(FILE, FILE, FILE, FILE)
    os.symlink(FILE, LINK)
    open(LINK, 'a').write(TEXT)
    os.unlink(LINK)
    os.symlink(FILE, 'new-link'); os.replace('new-link', LINK)
    os.chmod(FILE, 0o600)
    os.chmod(FILE, 0o755)
    os.utime(FILE, (SIZE, SIZE))
    shutil.copy2(FILE, FILE)
    shutil.move(FILE, FILE)
    os.makedirs(FOLDER)
    os.rmdir(FOLDER)
    os.chmod(FOLDER, 0o750)
    shutil.rmtree(FOLDER)
    os.rename(FOLDER, FOLDER)
    shutil.move(FOLDER, FOLDER)
    os.rename(FOLDER, FILE)
    os.unlink(FILE); os.mkdir(FILE)
    f = open(FILE, 'r+b'); m = mmap.mmap(f.fileno(), 0); m[:1] = b'm'; m.close(); f.close()
    keep(mmap.mmap(os.open(FILE, os.O_RDWR), 0))
    handles[-1][:1] = b'M'
    handles[0][1:2] = b'N'
    keep(open(FILE, 'r+b', buffering=0))
    keep(open(FILE, 'ab', buffering=0))
    handles[-1].write(TEXT.encode())
    handles[0].write(TEXT.encode())
    handles[-1].truncate(2)
    handles.pop().close()
    t = threading.Thread(target=pathlib.Path(FILE).write_text, args=[TEXT]); t.start(); t.join()
    sh(f'echo {TEXT} > {FILE}')
    sh(f'echo {TEXT} >> {FILE}; mv {FILE} {FILE}')
    sh(f'rm -rf {FOLDER}')
    sh(f'cp -r {FOLDER} {FOLDER}; rm -f {FILE}')
    sh(f'sed -i s/e/E/ {FILE}')
    sh(f'ln -f {FILE} {FILE}; chmod 640 {FILE}')
    sh(f'read x < go && echo {TEXT} > {FILE}; echo > done')
    c = sqlite3.connect('base'); c.execute('create table if not exists t (a)'); c.execute('insert into t values (?)', (TEXT,)); c.commit(); c.close()
    open(FILE).read()
"""
_BACKGROUND = "read x < go"
"""The beginning of a command that waits until the test lets it go on."""


class PathState(NamedTuple):
    """What an undo restores of a path."""

    mode: str
    content: bytes
    """Of a file; the target of a link."""
    mtime_ns: int
    """0 for what is not a file."""
    twins: tuple[str, ...]
    """Other names of the same file."""


Tree = dict[str, PathState]


def read_tree(folder: Path) -> Tree:
    """Return what is in a folder, by path in it."""
    names: dict[int, list[str]] = {}
    entries: list[tuple[str, os.stat_result, bytes]] = []
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            short_path = os.path.relpath(path, folder)
            content = b""
            if stat.S_ISREG(status.st_mode):
                content = Path(path).read_bytes()
                names.setdefault(status.st_ino, []).append(short_path)
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path).encode()
            entries.append((short_path, status, content))
    tree: Tree = {}
    for path, status, content in entries:
        is_file = stat.S_ISREG(status.st_mode)
        twins = sorted(name for name in names.get(status.st_ino, ()) if name != path)
        mtime_ns = status.st_mtime_ns if is_file else 0
        tree[path] = PathState(oct(status.st_mode), content, mtime_ns, tuple(twins))
    return tree


class _KernelDiedError(Exception):
    """A program has ended its kernel."""


class RandomProgram:
    """A random program in a folder of its own, and what somebody else does there."""

    def __init__(self, cells: Cells, folder: Path, seed: int, verbose: bool) -> None:
        self._cells = cells
        self._folder = folder
        self._random = random.Random(seed)
        self._text_count = 0
        self._has_background_process = False
        self._foreign_paths: set[str] = set()
        """What somebody else has changed."""
        self._foreign_states: list[PathState] = []
        """What somebody else has replaced or removed, also in folders that are renamed later."""
        self._withdrawn_texts: set[bytes] = set()
        """Texts that somebody else has written, and later removed."""
        self._named_paths: set[str] = set()
        """What an undo has said that it does not restore."""
        self._foreign_names: set[str] = set()
        """Names in any folder, which may be renamed later, that somebody else has given or taken away."""
        self._foreign_moves: list[tuple[str, str]] = []
        """Folders that somebody else has renamed: an undo names what is in them by the paths that it
        knows, old or new."""
        self._verbose = verbose
        self.problems: list[str] = []

    # Programs

    def _text(self, word: str) -> str:
        self._text_count += 1
        return f"{word}-{self._text_count}-text"

    def _statement(self) -> str:
        """Return a random statement."""
        rng = self._random
        statement = rng.choice(_STATEMENTS.strip().splitlines()).strip()
        is_command = statement.startswith("sh(f")
        choices = {"FILE": _FILES, "FOLDER": _FOLDERS, "LINK": _LINKS}
        for kind, names in choices.items():
            while kind in statement:
                name = rng.choice(names)
                statement = statement.replace(kind, name if is_command else repr(name), 1)
        statement = statement.replace("SIZE", str(rng.choice((1, 5000, 700_000))))
        while "TEXT" in statement:
            text = self._text("cell")
            statement = statement.replace("TEXT", text if is_command else repr(text), 1)
        statement = statement.replace("{", "").replace("}", "")
        if _BACKGROUND in statement:
            if self._has_background_process:
                return "pass"
            self._has_background_process = True
            statement = statement.replace("sh(f", "subprocess.Popen(").replace(
                "')", "', shell=True, stderr=subprocess.DEVNULL)"
            )
        return statement

    def _cell(self) -> str:
        """Return the code of a random cell."""
        lines = []
        for _ in range(self._random.randrange(1, 7)):
            lines += [
                "try:",
                f"    {self._statement()}",
                "except (OSError, ValueError, LookupError, TypeError, AttributeError): pass",
            ]
        return "\n".join(lines)

    def _run_cell(self) -> int:
        before = read_tree(self._folder)
        code = self._cell()
        self._log(f"# In {self._cells.number + 1}")
        self._log_tree(before)
        self._log(code)
        result = self._cells.run(code)
        if result.status == Status.DIED:  # it has written to a map behind the end of its file
            raise _KernelDiedError
        if result.status != Status.OK:
            self.problems.append(f"a cell failed: {result.output}")
        after = read_tree(self._folder)
        is_changed = _without_twins(before) != _without_twins(after)
        if is_changed and not result.files:
            self.problems.append(
                f"In {self._cells.number} reported no change: {list(_differences(before, after))}"
            )
        return self._cells.number

    def _release_process(self) -> None:
        """Let a process of an earlier cell write."""
        self._log("# a process goes on")
        before = _foreign_texts(read_tree(self._folder))
        (self._folder / "done").unlink(missing_ok=True)
        (self._folder / "go").write_text("go\n")
        wait_for((self._folder / "done").exists)
        self._has_background_process = False
        # What it overwrites stays so, and is named; cells may have copied that.
        self._withdrawn_texts |= before - _foreign_texts(read_tree(self._folder))

    def _change_by_somebody_else(self) -> None:
        rng = self._random
        path = self._folder / rng.choice(_FILES)
        action = rng.choice(_FOREIGN_ACTIONS.split())
        text = self._text(_FOREIGN.decode())
        self._log(f"# somebody else: {action} {path.relative_to(self._folder)}, {text}")
        before = read_tree(self._folder)
        with suppress(OSError):
            if action == "write":
                path.write_text(text)
            elif action == "append":
                with path.open("a") as file:
                    file.write(text)
            elif action == "replace":
                draft = self._folder / "foreign-draft"
                draft.write_text(text)
                draft.replace(path)
            elif action == "remove":
                path.unlink()
            elif action == "rename":
                path.replace(self._folder / rng.choice(_FILES))
            elif action == "link":
                os.link(path, self._folder / rng.choice(_FILES))
            elif action == "mark":
                path.chmod(0o604)
            else:
                source = rng.choice(_FOLDERS)
                target = rng.choice(_FOLDERS)
                (self._folder / source).rename(self._folder / target)
                self._foreign_moves.append((source, target))
        after = read_tree(self._folder)
        changed_paths = set(_differences(before, after))
        self._foreign_paths |= changed_paths
        if action in ("rename", "link"):
            self._foreign_names.update(f"/{os.path.basename(name)}" for name in changed_paths)
        self._foreign_states += [before[name] for name in changed_paths & before.keys()]
        # Cells may have copied what somebody else takes back, and these copies may go.
        self._withdrawn_texts |= _foreign_texts(
            {name: before[name] for name in changed_paths & before.keys()}
        ) - _foreign_texts({name: after[name] for name in changed_paths & after.keys()})

    # Undo

    def run(self) -> None:
        self._fill()
        self._cells.text(f"os.chdir({str(self._folder)!r})")
        states: list[tuple[int, Tree]] = []
        has_foreign_changes = self._random.random() < 0.5
        for _ in range(self._random.randrange(2, 6)):
            before = read_tree(self._folder)
            states.append((self._run_cell(), before))
            if self._has_background_process and self._random.random() < 0.4:
                self._release_process()
            if has_foreign_changes and self._random.random() < 0.5:
                self._change_by_somebody_else()
            if self._random.random() < 0.3:
                states = self._go_back(states, has_foreign_changes)
        if states:
            self._go_back(states, has_foreign_changes)
        if self._has_background_process:
            self._release_process()

    def _fill(self) -> None:
        self._folder.mkdir()
        for name in ("d0", "d1/sub"):
            (self._folder / name).mkdir(parents=True)
        for name in _FILES:
            if self._random.random() < 0.7:
                (self._folder / name).write_text(self._text("original"))
        with suppress(FileExistsError, FileNotFoundError):
            os.link(self._folder / "f0", self._folder / "f1")
        os.mkfifo(self._folder / "go")

    def _go_back(
        self, states: list[tuple[int, Tree]], has_foreign_changes: bool
    ) -> list[tuple[int, Tree]]:
        """Undo some cells, and perhaps redo them; return what is left of the states."""
        chosen = self._random.randrange(len(states))
        cell, expected = states[chosen]
        later_trees = [tree for _, tree in states[chosen:]]
        before = read_tree(self._folder)
        after = self._undo(cell, [expected, *later_trees])
        if self._random.random() < 0.5:
            if has_foreign_changes and self._random.random() < 0.3:
                self._change_by_somebody_else()
            self._log("# redo")
            tree = read_tree(self._folder)
            redone = self._cells.kernel.redo()
            protected_texts = _foreign_texts(tree) - _foreign_texts(after)
            trees = [before, tree, *later_trees]
            self._compare(redone, tree, trees, protected_texts, f"redo of In {cell}")
            if self._random.random() < 0.5:
                return states
            if has_foreign_changes and self._random.random() < 0.3:
                self._change_by_somebody_else()
            self._undo(cell, [expected, *later_trees])
        return states[:chosen]

    def _undo(self, cell: int, trees: list[Tree]) -> Tree:
        """Undo cells; return the tree after it.

        Args:
            cell: The first of them.
            trees: The one before it, and the later ones.
        """
        before = read_tree(self._folder)
        preview = self._cells.kernel.preview_undo(cell)
        self._expect_no_change(before, "a preview")
        self._log(f"# undo In {cell}")
        restoration = self._cells.kernel.undo(cell)
        self._expect_as_previewed(preview, restoration)
        self._log_tree(before)
        protected_texts = _foreign_texts(before)
        return self._compare(
            restoration, before, [*trees, before], protected_texts, f"undo In {cell}"
        )

    def _expect_no_change(self, before: Tree, action: str) -> None:
        after = read_tree(self._folder)
        changed_paths = list(_differences(before, after))
        if changed_paths:
            self.problems.append(f"{action} changed {changed_paths}")

    def _expect_as_previewed(self, preview: Restoration, done: Restoration) -> None:
        for name in ("files", "not_restored"):
            promised = {item[:2] for item in getattr(preview, name) if self._is_file_item(item)}
            actual = {item[:2] for item in getattr(done, name) if self._is_file_item(item)}
            if promised != actual:
                self.problems.append(
                    f"the preview differs in {name}: only promised {promised - actual}, only done {actual - promised}"
                )

    def _is_file_item(self, item: tuple[str, ...]) -> bool:
        return item[0].startswith(f"{self._folder.name}/")

    def _compare(
        self,
        restoration: Restoration,
        before: Tree,
        trees: list[Tree],
        protected_texts: set[bytes],
        action: str,
    ) -> Tree:
        """Note what an undo or a redo has left different without naming it; return the tree.

        Args:
            restoration: What it has done.
            before: The tree before it.
            trees: The expected one; and others, of which paths may be that somebody else has changed.
            protected_texts: What somebody else has written.
            action: Its name.
        """
        after = read_tree(self._folder)
        expected = trees[0]
        prefix = f"{self._folder.name}/"
        self._named_paths.update(
            item.name[len(prefix) :].rstrip("/")
            for item in restoration.not_restored
            if item.name.startswith(prefix)
        )
        self.problems += [
            f"{action}: {item.reason}"
            for item in restoration.not_restored
            if not item.name and ("not seen" in item.reason or "A program" in item.reason)
        ]
        for source, target in self._foreign_moves:
            for old, new in ((source, target), (target, source)):
                inside = [name for name in self._named_paths if f"{name}/".startswith(f"{old}/")]
                self._named_paths.update(new + name[len(old) :] for name in inside)
        named = self._named_paths
        self._log(f"# named: {sorted(named)}, now {restoration.not_restored}")
        self._log_tree(after)
        for path in _differences(expected, after):
            is_named = any(path == name or path.startswith(f"{name}/") for name in named)
            twins = _twins(expected.get(path), after.get(path))
            is_named = is_named or not named.isdisjoint(twins) or any(map(self._is_foreign, twins))
            possible_states = [tree.get(path) for tree in (before, *trees)]
            is_foreign = self._is_foreign(path) or any(
                state is not None and _FOREIGN in state.content for state in possible_states
            )
            is_foreign = is_foreign or expected.get(path) in self._foreign_states
            # Other names of it may be those that cells have given it.
            if is_foreign:  # it may be a file that somebody else has renamed
                possible_states += [state for tree in trees for state in tree.values()]
            is_allowed = is_foreign and _without_names(after.get(path)) in map(
                _without_names, possible_states
            )
            # What somebody else wrote moves with its folder.
            is_allowed = is_allowed or self._is_moved(after.get(path), before)
            is_allowed = is_allowed or self._follows_folder(path, expected, after)
            if not is_named and not is_allowed:
                self.problems.append(
                    f"{action}: {path} is {_show(after.get(path))}, was {_show(before.get(path))}, expected {_show(expected.get(path))}"
                )
        for text in protected_texts - _foreign_texts(after) - self._withdrawn_texts:
            self.problems.append(f"{action}: lost {text!r} of somebody else")
        return after

    def _is_moved(self, state: PathState | None, before: Tree) -> bool:
        """Return whether a file that somebody else has changed was there before, under any name."""
        return state is not None and any(
            _without_names(state) == _without_names(other)
            for path, other in before.items()
            if _FOREIGN in other.content or self._is_foreign(path)
        )

    def _follows_folder(self, path: str, expected: Tree, after: Tree) -> bool:
        """Return whether a path is as expected, but in a folder that somebody else has moved."""
        for source, target in self._foreign_moves:
            for old, new in ((source, target), (target, source)):
                if path.startswith(f"{old}/"):
                    other = new + path[len(old) :]
                    pairs = (
                        (expected.get(path), after.get(other)),
                        (expected.get(other), after.get(path)),
                    )
                    if any(first is not None and first == second for first, second in pairs):
                        return True
        return False

    def _is_foreign(self, path: str) -> bool:
        """Return whether somebody else has changed what a path leads to."""
        return path in self._foreign_paths or path.endswith(tuple(self._foreign_names))

    def _log_tree(self, tree: Tree) -> None:
        for path, state in tree.items():
            self._log(f"#   {path} {_show(state)}")

    def _log(self, text: str) -> None:
        if self._verbose:
            print(text, flush=True)


def _differences(expected: Tree, actual: Tree) -> Iterator[str]:
    for path in sorted(expected.keys() | actual.keys()):
        if path not in ("go", "done") and expected.get(path) != actual.get(path):
            yield path


def _without_twins(tree: Tree) -> dict[str, PathState]:
    return {
        path: state._replace(twins=()) for path, state in tree.items() if path not in ("go", "done")
    }


def _show(state: PathState | None) -> str:
    if state is None:
        return "missing"
    return f"{state.mode} {state.content[:60]!r} {state.mtime_ns} {state.twins}"


def _twins(expected: PathState | None, actual: PathState | None) -> tuple[str, ...]:
    """Return the other names that a file should have, and has; nothing if it should not be there."""
    if expected is None or actual is None:
        return ()
    return (*expected.twins, *actual.twins)


def _without_names(state: PathState | None) -> PathState | None:
    return None if state is None else state._replace(twins=())


def _foreign_texts(tree: Tree) -> set[bytes]:
    """Return the texts of somebody else that are in files."""
    return {text for state in tree.values() for text in _FOREIGN_TEXT.findall(state.content)}


@contextmanager
def watched_kernel(folder: Path, cell_megabytes: int) -> Iterator[tuple[Cells, Path]]:
    """Start a kernel whose files are watched; yield it, and its folder."""
    work = folder / f"work{cell_megabytes}"
    work.mkdir()
    watching = FileWatching((str(work),), (), str(folder / "copies"), cell_megabytes)
    with running(ProcessKernel(cwd=str(work), watching=watching)) as cells:
        yield cells, work


def find_problems(cells: Cells, work: Path, seed: int, verbose: bool = False) -> list[str]:
    """Run a program; return what was wrong, as sentences."""
    folder = work / f"s{seed}"
    program = RandomProgram(cells, folder, seed, verbose)
    cells.text(_PREPARE)
    with suppress(_KernelDiedError):
        program.run()
        cells.text(f"close_all(); os.chdir({str(work)!r})")
    shutil.rmtree(folder, ignore_errors=True)
    return [f"seed {seed}: {problem}" for problem in program.problems]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--megabytes", type=int, default=200, help="limit of the copies of a cell")
    parser.add_argument("--verbose", action="store_true", help="show the programs")
    chosen = parser.parse_args()
    failed = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        watched_kernel(Path(folder), chosen.megabytes) as (cells, work),
    ):
        for seed in range(chosen.seed, chosen.seed + chosen.programs):
            try:
                problems = find_problems(cells, work, seed, chosen.verbose)
            except (AssertionError, KernelError) as error:
                problems = [f"seed {seed}: {error}"]
            if problems:
                failed += 1
                print("\n".join(problems), flush=True)
    print(f"{chosen.programs} programs, {failed} with a problem")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
