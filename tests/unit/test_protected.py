"""Protected files: their names, and the texts in code that may name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mahtab_tui.session.protected_names import protected_candidates
from mahtab_tui.worker.protected import is_protected, leads_to_protected

PROTECTED = [
    "AGENTS.md",
    "sub/CLAUDE.md",
    "agents.MD",
    "/home/me/.mahtab/config.toml",
    "/home/me/.mahtab",
    "/home/me/.bashrc",
    ".git/hooks/pre-commit",
    ".git/config",
    "./.git//hooks",
    "skills/mine/SKILL.md",
    ".mcp.json",
    ".env",
    "~/.config/fish/config.fish",
]
ORDINARY = ["notes.md", ".git/HEAD", "hooks/x", "out/config.toml", "mahtab/x", "", "/", "a.env"]


@pytest.mark.parametrize("path", PROTECTED)
def test_protected_paths_are_known_by_name(path: str) -> None:
    assert is_protected(path)


@pytest.mark.parametrize("path", ORDINARY)
def test_other_paths_are_not_protected(path: str) -> None:
    assert not is_protected(path)


def test_a_link_to_a_protected_file_is_protected(project: Path) -> None:
    (project / "AGENTS.md").touch()
    (project / "notes").symlink_to("AGENTS.md")
    assert leads_to_protected("notes")
    assert leads_to_protected("missing/../notes")
    assert not leads_to_protected("others")


MAY_CHANGE = [
    "open('AGENTS.md', 'w')",
    "open('AGENTS.md', mode)",
    "open('AGENTS.md', 'r+')",
    "open(b'AGENTS.md', 'w')",
    "Path('AGENTS.md').write_text(Path('x').read_text())",
    "(Path.home() / '.bashrc').open('a')",
    "open(f'{home}/.bashrc', 'a')",
    "print(open('AGENTS.md', 'w').write('x'))",
    "name = 'AGENTS.md'",
    "table.write_csv('~/.mahtab/config.toml')",
    "os.system('echo x >> ~/.bashrc')",
    "os.system('cat x>AGENTS.md')",
    "os.system('cat AGENTS.md; rm AGENTS.md')",
    "subprocess.run(['cp', 'x', '.git/hooks/pre-commit'])",
    "!rm AGENTS.md",
    "%%writefile AGENTS.md\nx",
    "if x:\n    !tee .git/hooks/post-merge",
    "open('AGENTS.md', 'w'",
]
ONLY_READS = [
    "open('AGENTS.md').read()",
    "open('AGENTS.md', 'rb')",
    "open('AGENTS.md', mode='r')",
    "read('AGENTS.md')",
    "Path('AGENTS.md').read_text()",
    "Path('AGENTS.md').open()",
    "(Path('a') / 'AGENTS.md').exists()",
    "name == 'AGENTS.md'",
    "print('.env')",
    "load_dotenv('.env')",
    "os.system('cat AGENTS.md')",
    "!grep -n x AGENTS.md",
    "create('notes.md', 'as AGENTS.md says')",
]


@pytest.mark.parametrize("code", MAY_CHANGE)
def test_code_that_may_change_a_protected_file_is_found(code: str) -> None:
    assert any(map(is_protected, protected_candidates(code)))


@pytest.mark.parametrize("code", ONLY_READS)
def test_code_that_only_reads_a_protected_file_is_not_asked_about(code: str) -> None:
    assert not any(map(is_protected, protected_candidates(code)))


def test_texts_of_long_code_are_found_in_linear_time() -> None:
    nested = "f(" * 90 + "'AGENTS.md'" + ")" * 90
    assert "AGENTS.md" in protected_candidates(nested)
    assert "AGENTS.md" in protected_candidates("x = 1\n" * 50_000 + "open('AGENTS.md', 'w')")
    sums = "x = " + "+".join(["'a'"] * 900) + "\n"
    assert protected_candidates(sums * 25) == ["a"]
