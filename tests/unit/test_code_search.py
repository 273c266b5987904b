"""Searching the source: matches, limits, and files that are skipped."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from mahtab_tui.knowledge import code_search_process
from mahtab_tui.knowledge.code import CodeError, CodeSearcher, Matches
from mahtab_tui.knowledge.code_search_process import SearchRequest, find_matches
from mahtab_tui.knowledge.project_files import is_wanted, source_files
from mahtab_tui.knowledge.ripgrep import find_candidates, required_literal
from tests.waiting import alive, wait_for

TREE: dict[str, bytes] = {
    "app.py": b"import os\n\ndef load_all():\n    return 1\n\ndef load_one(name):\n    return name\n",
    "windows.py": b"def load_crlf():\r\n    pass\r\n",
    "no-end.txt": b"load the last line",
    "empty.txt": b"",
    "src/main.cbl": b"       IDENTIFICATION DIVISION.\n       PROGRAM-ID. CBPAUP0C.\n       CALL 'LOAD-IT'.\n",
    "src/deep/a/b/c.py": b"load = 1\nLOAD = 2\n",
    "src-too/x.py": b"load\n",
    "src.py": b"load\n",
    "latin.txt": "Grüße, load\nnaïve café\n".encode("latin-1"),
    "utf8.txt": "Grüße, load 😀\nnaïve\n".encode(),
    "bom.txt": "\ufeffload at the beginning\n".encode(),
    "utf16.txt": "load in sixteen\nnaïve\n".encode("utf-16"),
    "utf16-be.txt": b"\xfe\xff" + "load big\n".encode("utf-16-be"),
    "binary.dat": b"load\n\0\nload\n",
    "late-zero.dat": b"load\n" * 30_000 + b"\0load\n",
    "wide.txt": b"load " + b"x" * 2_000 + b"\n",
    ".hidden": b"load\n",
    ".config/x.txt": b"load\n",
    "src/.secret/x.txt": b"load\n",
    ".gitignore": b"*.log\n/build/\nnode_modules\n!keep.log\n# comment\n\\#odd\ntmp/*\n!tmp/kept.txt\n!.hidden\n**/gen/*.py\n",
    "a.log": b"load\n",
    "keep.log": b"load\n",
    "src/b.log": b"load\n",
    "build/x.txt": b"load\n",
    "src/build/x.txt": b"load\n",
    "node_modules/x/y.js": b"load\n",
    "src/node_modules/z.js": b"load\n",
    "tmp/gone.txt": b"load\n",
    "tmp/kept.txt": b"load\n",
    "#odd": b"load\n",
    "src/gen/x.py": b"load\n",
    "src/gen/x.txt": b"load\n",
    "nested/.gitignore": b"*.txt\n!*.log\n/only-here\n",
    "nested/a.txt": b"load\n",
    "nested/a.log": b"load\n",
    "nested/only-here/x.py": b"load\n",
    "nested/sub/only-here/x.py": b"load\n",
    ".ignore": b"app.py\n",
    "spaces in it/and ä.txt": b"load\n",
}
FOUND = (
    "app.py bom.txt keep.log latin.txt nested/a.log nested/sub/only-here/x.py no-end.txt "
    "src/build/x.txt src/deep/a/b/c.py src/gen/x.txt src-too/x.py src.py tmp/kept.txt utf16-be.txt utf16.txt utf8.txt wide.txt windows.py"
).split()

PATTERNS = [
    *(
        "load",
        "def load_",
        r"load\b",
        "LOAD",
        r"(?i)LoAd",
        "(?i:na)ïve",
        r"naïve",
        r"l(oa)d( the)?",
    ),
    *(
        r"^load$",
        r"(load|LOAD) =",
        r"x{4}",
        r"lo+ad",
        r"[lL]oad",
        ".",
        "é",
        r"café",
        r"load\.",
        "^$",
    ),
    *(r"PROGRAM-ID\.", r"'LOAD-IT'", r"a(?=d)", "thirty two", "(?x) load  # words", "no such text"),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    for name, data in TREE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("load the secret\n")
    (folder / "link-out").symlink_to(outside)
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "link-in.py").symlink_to("app.py")
    os.mkfifo(folder / "pipe.txt")
    return folder


@pytest.fixture(scope="module")
def ripgrep() -> Path:
    """The folder of the program."""
    program = shutil.which("rg")
    if program is None:
        pytest.skip("ripgrep is not installed")
    return Path(program).parent


@pytest.fixture
def searcher(tree: Path) -> CodeSearcher:
    return CodeSearcher(tree)


def found_paths(code_matches: Matches) -> list[str]:
    return list(dict.fromkeys(match.path for match in code_matches.lines))


def test_hidden_ignored_binary_and_linked_files_are_skipped(searcher: CodeSearcher) -> None:
    expected = sorted([*FOUND, "spaces in it/and ä.txt"], key=lambda path: path.split("/"))
    assert found_paths(searcher.search("load", limit=1000)) == expected


@pytest.mark.parametrize("first_files", [0, 3])
@pytest.mark.parametrize("ignore_case", [False, True])
def test_ripgrep_changes_no_result(
    tree: Path,
    ripgrep: Path,
    ignore_case: bool,
    first_files: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(code_search_process, "FILES_BEFORE_RIPGREP", first_files)
    (tree / "utf32.txt").write_bytes("thirty two, l\u00f6ad\n".encode("utf-32"))
    for pattern in PATTERNS:
        request = SearchRequest(
            folder=str(tree),
            pattern=pattern,
            file_pattern="*",
            context_lines=1,
            ignore_case=ignore_case,
            limit=1_000,
            encoding=None,
        )
        monkeypatch.setenv("PATH", str(ripgrep))
        quick = list(find_matches(request))
        monkeypatch.setenv("PATH", "/nowhere")
        assert quick == list(find_matches(request)), pattern


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_ripgrep_finds_letters_that_count_as_the_same_in_wide_encodings(
    encoding: str, tmp_path: Path, ripgrep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\ufeff\u0130\u017ftanbul\n\u212aelvin\n"
    (tmp_path / "wide.txt").write_bytes(text.encode(encoding))
    monkeypatch.setenv("PATH", str(ripgrep))
    for pattern in ("istanbul", "kelvin"):
        assert find_candidates(tmp_path, pattern, ignore_case=True) == ["wide.txt"]


def test_only_files_that_may_match_are_read(searcher: CodeSearcher, ripgrep: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(ripgrep))
        candidates = find_candidates(searcher.folder, r"PROGRAM-ID\. \w+", ignore_case=False)
    assert candidates == ["src/main.cbl"]


def install_ripgrep(folder: Path, script: str) -> None:
    """Write a program named rg."""
    folder.mkdir(parents=True)
    program = folder / "rg"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("end", "candidates"),
    [
        ("exit 0", ["a.txt"]),
        ("exit 1", ["a.txt"]),
        ("exit 2", ["a.txt"]),
        ("exit 101", None),
        ("kill -9 $$", None),
    ],
)
def test_ripgrep_that_was_interrupted_hides_no_file(
    end: str, candidates: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_ripgrep(tmp_path / "programs", f"printf './a.txt\\0'\n{end}")
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:{os.environ['PATH']}")
    assert find_candidates(tmp_path, "load", ignore_case=False) == candidates


def test_ripgrep_of_the_searched_folder_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_ripgrep(tmp_path / "bin", "touch was-run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin")
    assert find_candidates(tmp_path, "load", ignore_case=False) is None
    assert not (tmp_path / "was-run").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_ripgrep_ends_with_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_ripgrep(
        tmp_path / "programs",
        f"echo $$ > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid\nexec sleep 1000",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:{os.environ['PATH']}")
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(code_search_process.FILES_BEFORE_RIPGREP):
        (tree / f"{number}.txt").touch()

    pid_file = tmp_path / "pid"
    ended = threading.Event()
    searcher = CodeSearcher(tree)
    search = threading.Thread(target=lambda: searcher.search("load", seconds=600, cancelled=ended))
    search.start()
    wait_for(pid_file.exists)
    ended.set()
    search.join()
    wait_for(lambda: not alive(int(pid_file.read_text())))


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("load_all", "load_all"),
        (r"def \w+_all\(", r"_all\x28"),
        (r"(?:ab|cd)efg", "efg"),
        ("a(bcd)+e", "bcd"),
        ("a|b", None),
        ("(abc)?", None),
        ("x", None),
        (r"\w+", None),
        ("(?i)ask", "[aA][sS\u017f][kK\u212a]"),
        ("a.b", None),
        (r"a\.b", r"a\x2eb"),
        ("(", None),
    ],
)
def test_a_text_that_each_match_contains(pattern: str, literal: str | None) -> None:
    required = required_literal(pattern, ignore_case=False)
    assert (None if required is None else required.split("|")[0]) == literal


def test_match_has_a_path_line_number_and_context(searcher: CodeSearcher) -> None:
    first_match, second_match = searcher.search(r"def load_\w+", "app.py").lines
    assert (first_match.path, first_match.line, first_match.text) == (
        "app.py",
        3,
        "def load_all():",
    )
    assert (first_match.before, first_match.after) == (("import os", ""), ("    return 1", ""))
    assert second_match.line == 6
    text = "app.py\n     5- \n     6: def load_one(name):\n     7-     return name"
    assert searcher.search("load_one", context_lines=1).as_text() == text


def test_overlapping_context_lines_are_shown_once(tmp_path: Path) -> None:
    text = "".join(f"{kind} {number}\n" for number, kind in enumerate("abbacccb"))
    (tmp_path / "log").write_text(text)
    code_matches = CodeSearcher(tmp_path).search("^b", context_lines=1)
    lines = [line.strip() for line in code_matches.as_text().splitlines()]
    assert lines == ["log", "1- a 0", "2: b 1", "3: b 2", "4- a 3", "--", "7- c 6", "8: b 7"]
    assert "--" not in CodeSearcher(tmp_path).search("^b", context_lines=0).as_text()
    assert CodeSearcher(tmp_path).search("b 1", context_lines=5).lines[0].before == ("a 0",)


@pytest.mark.parametrize("encoding", ["nonsense", "hex", "zlib", "undefined", "a\0b"])
def test_unknown_encoding_is_reported(searcher: CodeSearcher, encoding: str) -> None:
    for function, argument in ((searcher.search, "x"), (searcher.read_file, "app.py")):
        with pytest.raises(CodeError, match="Unknown encoding"):
            function(argument, encoding=encoding)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("file_pattern", "paths"),
    [
        ("c.py", ["src/deep/a/b/c.py"]),
        ("src/**/*.py", ["src/deep/a/b/c.py"]),
        ("*.cbl", []),
        ("./app.py", ["app.py"]),
        ("nothing*", []),
    ],
)
def test_files_are_chosen_by_name_or_by_path(
    searcher: CodeSearcher, file_pattern: str, paths: list[str]
) -> None:
    assert found_paths(searcher.search("load", file_pattern)) == paths


@pytest.mark.parametrize("invalid_rule", ["foo\\", "\\", "!", "[z-a]"])
def test_invalid_rules_are_skipped_and_the_others_apply(tmp_path: Path, invalid_rule: str) -> None:
    (tmp_path / ".gitignore").write_text(f"a.log\n{invalid_rule}\n*.txt\n!b.txt\n")
    for name in ("a.log", "a.txt", "b.txt"):
        (tmp_path / name).write_text("load\n")
    assert list(source_files(tmp_path)) == ["b.txt"]


@pytest.mark.parametrize(
    ("path", "file_pattern", "wanted"),
    [
        ("src/tests/x.py", "src/**/tests/**/x.py", True),
        ("src/tests/a/x.py", "src/**/tests/**/x.py", True),
        ("src/a/tests/x.py", "src/**/tests/**/x.py", True),
        ("src/a/b/tests/c/x.py", "src/**/tests/**/x.py", True),
        ("src/my-tests/x.py", "src/**/tests/**/x.py", False),
        ("x.py", "**/**/x.py", True),
        ("a/my-x.py", "**/x.py", False),
        ("src/a/x.py", "src/*.py", True),
        ("src/a/x.py", "src/**", True),
    ],
)
def test_wildcards_of_folders_stand_for_any_number_of_them(
    path: str, file_pattern: str, wanted: bool
) -> None:
    assert is_wanted(path, file_pattern) == wanted


def test_search_stops_at_the_limit_and_notes_it(searcher: CodeSearcher) -> None:
    code_matches = searcher.search("load", limit=3)
    assert (len(code_matches.lines), code_matches.ended) == (3, "limit")
    assert code_matches.as_text().endswith("[There is more; narrow the pattern or raise limit.]")


def test_long_lines_are_cut(searcher: CodeSearcher) -> None:
    [match] = searcher.search("load", "wide.txt").lines
    assert match.text.endswith("… (2,005 characters)")


def test_mainframe_line_ends_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "x.cbl").write_bytes("MOVE A TO B.\x85STOP RUN.\x85".encode("cp037"))
    searcher = CodeSearcher(tmp_path)
    [match] = searcher.search("RUN", encoding="cp037").lines
    assert (match.line, match.text) == (2, "STOP RUN.")
    assert searcher.read_file("x.cbl", 2, encoding="cp037") == "     2  STOP RUN."


@pytest.mark.sample(2)
@pytest.mark.parametrize("between", ["\f", "\v", "\x1c", "\u2028", "\x85"])
def test_search_and_read_number_lines_alike(tmp_path: Path, between: str) -> None:
    utf8 = f"one{between}\r\ntwo"
    latin = f"one\xfc{between}\ntwo"
    for data in (utf8.encode(), latin.encode("latin-1", "ignore")):
        (tmp_path / "a.txt").write_bytes(data)
        searcher = CodeSearcher(tmp_path)
        assert [match.line for match in searcher.search("two").lines] == [2]
        assert searcher.read_file("a.txt", 2) == "     2  two"


@pytest.mark.thorough
def test_nested_folders_need_no_recursive_calls(tmp_path: Path) -> None:
    deep = tmp_path / Path(*["a"] * 200)
    deep.mkdir(parents=True)
    (deep / "deep.txt").touch()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        assert [path.count("/") for path in source_files(tmp_path)] == [200]
    finally:
        sys.setrecursionlimit(limit)


def test_results_with_context_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mahtab_tui.knowledge.code.MAX_RESULT_CHARS", 100_000)
    (tmp_path / "x.txt").write_text(("x" * 400 + "\n") * 2_000)
    code_matches = CodeSearcher(tmp_path).search("x", context_lines=50, limit=10_000)
    assert (0 < len(code_matches.lines) < 20, code_matches.ended) == (True, "size")
    truncation_note = (
        "[There is more than can be shown; narrow the pattern or lower context_lines.]"
    )
    assert code_matches.as_text().endswith(truncation_note)


def test_invalid_regular_expression_gives_one_sentence(searcher: CodeSearcher) -> None:
    problem = r"missing \), unterminated subpattern at position 0\."
    with pytest.raises(CodeError, match=rf"'\(' is not a regular expression: {problem}"):
        searcher.search("(")


def test_catastrophic_backtracking_ends_at_the_time_limit(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("a" * 100 + "\n")
    assert CodeSearcher(tmp_path).search(r"(a|a)*b$", seconds=1.0).ended == "time"


def test_a_search_can_be_cancelled(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("a" * 100 + "\n")
    cancelled = threading.Event()
    cancelled.set()
    code_matches = CodeSearcher(tmp_path).search(r"(a|a)*b$", cancelled=cancelled, seconds=100)
    assert code_matches.ended == "cancelled"


def test_search_runs_no_modules_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('run')\n")
    monkeypatch.chdir(tmp_path)
    assert len(CodeSearcher(".").search("raise").lines) == 1


def test_file_is_read_by_lines_and_only_inside_the_folder(tree: Path) -> None:
    searcher = CodeSearcher(tree)
    assert searcher.read_file("app.py", 3, 4) == "     3  def load_all():\n     4      return 1"
    for path, message in (
        ("xyz.cbl", "File not found: xyz.cbl"),
        ("link.txt", "a link in it leads outside"),
        ("link-out/secret.txt", "a link in it leads outside"),
        ("../outside/secret.txt", r'must not contain "\.\."'),
        ("pipe.txt", "is a pipe"),
    ):
        with pytest.raises(CodeError, match=message):
            searcher.read_file(path)
    for start, end, message in (
        (9, None, "has only 7 lines, so there is no line 9"),
        (5, 3, "The end, line 3, comes before the start, line 5"),
    ):
        with pytest.raises(CodeError, match=message):
            searcher.read_file("app.py", start, end)
    assert searcher.read_file("empty.txt") == ""
