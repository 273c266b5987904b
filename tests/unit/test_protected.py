"""Protected files: their names, and the texts in code that may name them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from mahtab_tui.session import protected_names
from mahtab_tui.session.protected_names import (
    protected_candidates,
    shell_commands,
    unreadable_command_part,
)
from mahtab_tui.worker.cells.attribution import CellAttribution
from mahtab_tui.worker.guard import named_files, protected_commands, protected_places
from mahtab_tui.worker.guard.protected import EVENTS, ProtectedFiles
from mahtab_tui.worker.guard.protected_commands import (
    paths_changed_by_command,
    unreadable_part_of_command,
)
from mahtab_tui.worker.guard.protected_places import (
    is_hard_link,
    is_protected,
    leads_to_protected,
)
from mahtab_tui.worker.witness.calls import FileCall
from mahtab_tui.worker.witness.protected_paths import changed_protected_path

PROTECTED = [
    "AGENTS.md",
    "sub/CLAUDE.md",
    "agents.MD",
    "/home/me/.mahtab/config.toml",
    "/home/me/.mahtab",
    "/home/me/.bashrc",
    "/home/me/.lesskey",
    "/home/me/.config/lesskey",
    "/home/me/.config/less",
    ".git/hooks/pre-commit",
    ".git/config",
    "./.git//hooks",
    ".git/modules/sub/hooks/post-checkout",
    ".git/modules/sub/config",
    ".git/worktrees/other/config.worktree",
    "/srv/project.git/hooks/post-receive",
    "project.git/config",
    "skills/mine/SKILL.md",
    ".mcp.json",
    ".env",
    "~/.config/fish/config.fish",
]
ORDINARY = [
    "notes.md",
    ".git/HEAD",
    ".git/modules/sub/HEAD",
    "project.git/HEAD",
    "project.gitx/config",
    "project.git",
    "modules/sub/config",
    "hooks/x",
    "out/config.toml",
    "mahtab/x",
    "",
    "/",
    "a.env",
]

MAY_CHANGE = [
    """os.system('sh -c \'echo x > AGEN""TS.md\'')""",
    """subprocess.run(['sh', '-c', 'echo x > AGEN""TS.md'])""",
    """subprocess.run(['env', 'sh', '-c', 'bash -lc "rm AGEN\\'\\'TS.md"'])""",
    "os.system('echo x > AG\\\\ENTS.m\\\\d')",
    "subprocess.run(args='dd of=AGEN\"\"TS.md', shell=True)",
    "os.system('echo x > AGENTS' + '.md')",
    "%%bash\nls\nrm AGEN''TS.md",
    "subprocess.run(['git', 'clone', url])",
    "os.system('git -c a=b init')",
    "os.system('./sh -c \"cat AGENTS.md\"')",
    "!cd .git && touch hooks/a",
    "!(cd a; ls); (cd .git; sh -c 'touch hooks/a')",
    "!cd sub; cd .git; touch config",
    "!git config core.hooksPath x",
    "!git config --unset core.hooksPath",
    "!git submodule update --init",
    "!/opt/bin/git clone x",
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
    "os.system('cat=1 rm AGENTS.md')",
    "os.system('cat\"x\" AGENTS.md')",
    "os.system('rg $options AGENTS.md')",
    "subprocess.run(['cp', 'x', '.git/hooks/pre-commit'])",
    "subprocess.run('cat sub/AGENTS.md > sub/CLAUDE.md', shell=True)",
    "subprocess.run('./cat AGENTS.md', shell=True)",
    "subprocess.run('less -o AGENTS.md', shell=True, input=text)",
    "subprocess.run('rg --pre ./x y AGENTS.md', shell=True)",
    "subprocess.run(['rm', 'cat sub/AGENTS.md'])",
    "!rm AGENTS.md",
    "%%writefile AGENTS.md\nx",
    "if x:\n    !tee .git/hooks/post-merge",
    "open('AGENTS.md', 'w'",
    # Magic commands and code that are called by a text
    "get_ipython().run_line_magic('cp', 'a AGENTS.md')",
    "get_ipython().run_line_magic(magic_name='cp', line='a AGENTS.md')",
    "get_ipython().run_line_magic('time', \"open('AGENTS.md', 'w')\")",
    "get_ipython().run_cell_magic('bash', '', 'ls\\necho x > AGENTS.md')",
    "get_ipython().run_cell_magic('writefile', '-a AGENTS.md', 'x')",
    "get_ipython().run_cell_magic('perl', '', 'open(F, \">AGENTS.md\")')",
    "get_ipython().magic('%cp a AGENTS.md')",
    "%rm AGENTS.md fish",
    "%mv AGENTS.md ~/nu",
    "get_ipython().run_line_magic('rm', 'AGENTS.md nu')",
    "%sx zsh -c 'rm AGENTS.md'",
    "%sx rm AGENTS.md; echo zsh",
    "%system fish -c 'rm AGENTS.md'",
    "get_ipython().run_cell('!cp a AGENTS.md')",
    "exec(\"open('AGENTS.md', 'w')\")",
    "exec('exec(\"open(\\'AGENTS.md\\', \\'w\\')\")')",
    "timeit.timeit(\"open('AGENTS.md', 'w')\", number=1)",
    "%save AGENTS.md 1-3",
    # Commands of programs that are started by other functions, or under other names
    "os.execlp('sh', 'sh', '-c', 'cp a AGENTS.md')",
    "os.spawnlp(os.P_WAIT, 'sh', 'sh', '-c', 'cp a AGENTS.md')",
    "os.posix_spawn('/bin/sh', ['sh', '-c', 'cp a AGENTS.md'], {})",
    "asyncio.create_subprocess_exec('sh', '-c', 'cp a AGENTS.md')",
    "command = 'cp a AGENTS.md'\nos.system(command)",
    "for command in ['ls', 'cp a AGENTS.md']:\n    os.system(command)",
    "subprocess.run(shlex.split('cp a AGENTS.md'))",
    "subprocess.run('cp a AGENTS.md'.split())",
    "start = os.system\nstart('cp a AGENTS.md')",
    "getattr(os, 'system')('cp a AGENTS.md')",
    "subprocess.run(['cat', 'AGENTS.md'], executable='/bin/rm')",
    "subprocess.run(['cat', 'x'], stdout=open('AGENTS.md', 'w'))",
    "subprocess.run(['rg', option, 'x', 'AGENTS.md'])",
    "import subprocess as sp\nstart = sp.getoutput\nstart('cp a AGENTS.md')",
    "from os import system as start\nstart('cp a AGENTS.md')",
    "start = __import__('os').system\nstart('cp a AGENTS.md')",
    "command = 'cp a AGENTS.md'\nsp.run(command, shell=True)",
    "words = ['sh', '-c', 'cp a AGENTS.md']\nsp.run(words)",
    "def start(command):\n    os.system(command)\n\nstart('cp a AGENTS.md')",
    "def start(command):\n    o.system(command)\n\nstart('cp a AGENTS.md')",
    "def start(command):\n    run(command, shell=True)\n\nstart('cp a AGENTS.md')",
    "from subprocess import *\nstart = getoutput\nstart('cp a AGENTS.md')",
    "from asyncio.subprocess import create_subprocess_shell as c\nc('cp a AGENTS.md')",
    "vars(os)['system']('cp a AGENTS.md')",
    "os.__getattribute__('system')('cp a AGENTS.md')",
    "name = 'system'\ngetattr(os, name)('cp a AGENTS.md')",
    "start = sys.modules['os'].system\nstart('cp a AGENTS.md')",
    "o = os\nstart = o.system\nstart('cp a AGENTS.md')",
    "def go(module): return module.system\ngo(os)('cp a AGENTS.md')",
    "start = run\nstart('cp a AGENTS.md', shell=True)",
    "for start in [system]: start('cp a AGENTS.md')",
    "list(map(sp.getoutput, ['cp a AGENTS.md']))",
    "ThreadPoolExecutor().submit(system, 'cp a AGENTS.md')",
    "partial(sp.run, shell=True)('cp a AGENTS.md')",
    "class C:\n    start = staticmethod(system)\n\nC.start('cp a AGENTS.md')",
    # Texts of magic commands that are no plain arguments, or of magic commands that are not known
    "get_ipython().run_cell_magic('writefile', os.path.join('sub', 'AGENTS.md'), 'hi')",
    "get_ipython().run_cell_magic('writefile', str(Path('AGENTS.md')), 'hi')",
    "get_ipython().run_cell_magic('writefile', ['AGENTS.md'][0], 'hi')",
    "get_ipython().run_cell_magic('writefile', 'AGENTS.md' if 1 else '', 'hi')",
    "get_ipython().run_cell_magic('writefile', '%s' % 'AGENTS.md', 'hi')",
    "get_ipython().run_cell_magic(*('writefile', 'AGENTS.md', 'hi'))",
    "get_ipython().run_line_magic(**{'magic_name': 'save', 'line': 'AGENTS.md 1'})",
    "get_ipython().run_line_magic(line='AGENTS.md 1', magic_name='save')",
    "get_ipython().run_line_magic('time', \"open('AGENTS.md','w')\" if 1 else '')",
    "A().magic('AGENTS.md')",
    "%%script sh -c 'rm AGENTS.md'\nls",
    "%%bash -ce 'rm AGENTS.md'\nls",
    "%%sh -c'rm AGENTS.md'\nls",
    "%%bash -co pipefail 'rm AGENTS.md'\nls",
    "get_ipython().run_cell_magic('bash', \"-ce 'rm AGENTS.md'\", 'ls')",
    "%%python -c \"open('AGENTS.md', 'w')\"\nx = 1",
    "%%script python -c \"open('AGENTS.md', 'w')\"\nx = 1",
    "%%python -Wonce\nopen('A\\x47ENTS.md', 'w')",
    "%%script bash python.sh\ncp a AGENTS.md",
    "%%script python3 -mcompileall\nopen('A\\x47ENTS.md', 'w')",
    "list(map(open, repeat('AGENTS.md'), 'w'))",
    "exec(\"open('AGENTS.md', 'w')\" if 1 else '')",
    "exec('%s' % \"open('AGENTS.md', 'w')\")",
    "timeit.timeit('pass', setup=\"open('AGENTS.md', 'w')\")",
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
    "subprocess.run('cat sub/AGENTS.md', shell=True, capture_output=True)",
    "subprocess.check_output('/bin/head -n 3 docs/AGENTS.md', shell=True)",
    "!grep -n x AGENTS.md",
    "!git remote show origin",
    "!git config get user.name",
    "!git config --get user.name",
    "!git worktree list",
    "create('notes.md', 'as AGENTS.md says')",
    "subprocess.run(['cat', 'AGENTS.md'], capture_output=True, text=True)",
    "command = 'cat AGENTS.md'\nos.system(command)",
    "%time text = open('AGENTS.md').read()",
    "%timeit len('AGENTS.md')",
    "timeit.timeit(\"open('AGENTS.md').read()\")",
    "%%script sh -c 'cat AGENTS.md'\n",
    "%matplotlib inline\nprint('see AGENTS.md')",
    "get_ipython().getoutput('cat AGENTS.md')",
    "get_ipython().run_line_magic('cat', 'AGENTS.md')",
    "exec('x = 1')",
    # Functions with the name of one that starts programs
    "note = 'rules are in AGENTS.md'\nplatform.system()",
    "def test():\n    'See the rules in AGENTS.md.'\n\nunittest.main().run()",
    "def start():\n    'See the rules in AGENTS.md.'\n    os.system('ls')",
    "note = 'rules are in AGENTS.md'\nif mode == 'call': n = df['count']",
    "note = 'rules are in AGENTS.md'\nrun = system = 1",
    "note = 'rules are in AGENTS.md'\nfrom .tasks import run",
]

NESTED_CALL = "open('AGENTS.md', 'w')"
for _level in range(8):
    NESTED_CALL = f"exec({NESTED_CALL!r})"

UNREADABLE = {
    "os.system('n=AGENTS; echo x > $n.md')": "$n.md",
    "subprocess.run(f'rm {folder}/$x', shell=True)": "x/$x",
    "subprocess.run(['bash', '-lc', 'rm \"$x\"'])": "$x",
    "os.popen('ls | xargs rm')": "xargs",
    "os.system('echo cm0K | base64 -d | sh')": "sh",
    "os.system('sh < commands')": "sh",
    "os.system('find . -name \"A*\" -delete')": "find",
    "!rm `ls`": "`",
    '!echo "$(date)" > "$f"': "$f",
    "out = !eval rm x": "eval",
    "%%sh\ncp a {AGENTS,b}.md": "{AGENTS,b}.md",
    "%%script bash\n$COMMAND": "$COMMAND",
    "%%script '/bin/bash'\n$COMMAND": "$COMMAND",
    "%%script {shell}\nrm A*": "{shell}",
    "%%script $shell\nrm A*": "$shell",
    "%%zsh\nls": "zsh",
    "%%script fish\nls": "fish",
    "get_ipython().run_cell_magic('script', 'ksh', 'ls')": "ksh",
    "subprocess.run(['zsh', '-c', 'ls notes.md > x'])": "zsh",
    "!cat <<EOF\n${x@P}\nEOF": "",
    "%%bash\ncat <<EOF\n${x@P}\nEOF": "${…}",
    "%%bash\ncat <<EOF\n$[x]\nEOF": "$[…]",
    '%%bash\necho "$\\\n(cd .g*; rm c*)"': "$\\",
    "%%bash\ncat <<E\n$\\\n(cd .g*; rm c*)\nE": "$\\",
    "%%bash\n(\\\n(x))\nls |\\\nwc": "(\\",
    "%%bash\nls |\\\nwc": "",
    "%%bash\nx=$(cat a)\n((x))": "`x=$(…)`, which may be any text and may run as code,",
    "!echo $(( $(ls) ))": "`$(ls)`, which may be any text and may run as code,",
    "!read n; echo $((n+1))": "`n`, which may be any text and may run as code,",
    "!printf '$x'; printf \"$y\"; y=-v": "`y=-v`, which may be any text and may run as code,",
    "!rm $(ls | wc -l)": "$(…)",
    "!! rm $x": "$x",
    "%sx rm $x": "$x",
    "lines = %system rm $x": "$x",
    "%%system\nls\nrm $x": "$x",
    "%%!\nrm $x": "$x",
    "%cp notes.md $x": "$x",
    "%ls ; cp a $x": "$x",
    "%cat a > $x": "$x",
    "ll | tee $x": "$x",
    "x = %lx ; cp a $x": "$x",
    "%conda run cp a $x": "$x",
    "%pip list > $x": "$x",
    "%uv run cp a $x": "$x",
    "%sc -l names=ls ; cp a $x": "$x",
    "%debug get_ipython().system('rm $x')": "$x",
    "%%debug\n!rm $x": "$x",
    "%config A.b = get_ipython().system('rm $x')": "$x",
    "%ls $x": "",
    "%cat a.txt b.txt": "",
    "%pip install pandas": "",
    "%debug": "",
    "%config InlineBackend.figure_format = 'retina'": "",
    "cp notes.md $x\nx = 1 +": "$x",
    "!rm \\\n  $x": "$x",
    "for name in names:\n    !rm $name": "$name",
    "%%script --no-raise-error /bin/bash\nrm $x": "$x",
    "%%bash --out text\nrm $x": "$x",
    "%time !rm $x": "$x",
    "%timeit -n 1 -r1 %sx rm $x": "$x",
    "%%capture text\n%%time\n!rm $x": "$x",
    "get_ipython().run_line_magic('sx', 'rm $x')": "$x",
    "get_ipython().run_cell_magic('bash', '', 'rm $x')": "$x",
    "get_ipython().run_cell_magic('bash', cell='rm $x', line='')": "$x",
    "get_ipython().run_line_magic(line='rm $x', magic_name='sx')": "$x",
    "%%script sh -c 'rm $x'\nls": "$x",
    "%%bash -c 'rm $x'": "$x",
    "%%sh -cx 'rm $x'\nls": "$x",
    "get_ipython().magic('cp a $x')": "$x",
    "get_ipython().run_cell('!rm $x')": "$x",
    "exec(\"os.system('rm $x')\")": "$x",
    "command = 'rm $x'\nos.system(command)": "$x",
    "for command in ('ls', 'rm $x'):\n    os.system(command)": "$x",
    "subprocess.run(shlex.split('sh -c \"rm $x\"'))": "$x",
    "os.execlp('sh', 'sh', '-c', 'rm $x')": "$x",
    "os.posix_spawn('/bin/sh', ['sh', '-c', 'rm $x'], {})": "$x",
    "asyncio.create_subprocess_exec('sh', '-c', 'rm $x')": "$x",
    "libc.system(b'rm $x')": "$x",
    "note = 'rm $x'\nos.system('ls')": "",
    "os.system('x' * 30_000)": "",
    f"os.system('{'x' * 30_000}')": "more than 20,000 characters",
    "!ls $HOME; echo $x | wc -l": "",
    "subprocess.run(['git', 'commit', '-m', 'costs $5'])": "",
    "os.system(\"awk '{print $1}' a > b; grep x$ b\")": "",
    "%%bash\nfor f in a b; do echo $f; done": "",
    "%%bash\nls # don't ask\nrm $x": "$x",
    "%%bash\ncat > a <<EOF\nit's\nEOF\nrm $x": "$x",
    "%%bash\ncat > a <<-'EOF'\n\tcosts $(5)\n\tEOF\nls": "",
    "%%bash\ncat > a <<EOF\n$(rm x)\nEOF": "$(…)",
    "%%bash\ncat <<< it\nrm $x": "$x",
    "!echo $'\\'' ; rm $x '": "$'",
    """!echo "${x#'"'}"; rm $x #'""": "${…}",
    """!echo "`echo '"'`"; rm $x #'""": "`",
    "!echo `echo \\`rm x\\``": "`",
    "%%bash\necho $((1 <<2))\nrm $x\n2": "$x",
    "%%bash\n((x = 1 <<2))\nrm $x\n2": "<<",
    "!echo ${x:- #}; rm $x": "$x",
    "!echo $(ls)#; rm $x": "#",
    "!echo `ls # all`; rm $x": "$x",
    "!echo $(( 1 # )); rm $x": "$x",
    "!echo `echo '`; rm $x #'`'": "`",
    "!echo `echo # \\` '`; rm $x #'": "`",
    "!echo ${x:-;}; ls": "",
    """!echo "$(case x in a) true " ; rm $x ; " ;; esac)\"""": "case",
    "!trap 'rm $x' EXIT": "$x",
    "!trap : INT QUIT; vim a": "",
    "!ls | bash -s -- a": "bash",
    "!ls | sudo -n sh": "sh",
    "!bash --norc -c 'rm $x'": "$x",
    "!bash -ceu 'rm $x'": "$x",
    "!bash -c -e 'rm $x'": "$x",
    "!rm $x sh -c ls": "$x",
    "!./cat $x": "$x",
    "!cd $x; rm hooks/a": "$x",
    "!cd $x; ls hooks > b": "$x",
    "!cd $x && make": "",
    "!cd $x && ls hooks": "",
    "!echo ${x:-1} ${#x}": "",
    "print('rm $x')": "",
    "text = 'a! rm $x'": "",
    "!ls\ntext = 'a! rm $x'": "",
    "%%script perl\nrm $x": "",
    "%%writefile notes.md\nrm $x": "",
    "%%writefile nu\nrm $x": "",
    "%%html fish\nrm $x": "",
    "%%python zsh\nx = '$x'": "",
    "%cd fish": "",
    "%rm a ~/fish": "fish",
    "%pip install fish": "fish",
    # Python reads what follows
    "%%script python3\nx = '$y'": "",
    "%%script python3 $FLAGS\nx = '$y'": "$FLAGS",
    "%%script python3 -Wonce\nprint >> $y": "",
    "%%script $shell python3\nrm A*": "$shell",
    "%%script $shell/python3\nrm A*": "$shell/python3",
    "%%script python3 -mpty sh\nrm $x": "$x",
    "%pip install $x": "$x",
    "%timeit -n 1 f('$x')": "",
    "os.system('rm *.csv')": "",
    "command = 'ls'\ncommand = 'rm $x'\nsp.run(command)\nsp.run(command, shell=True)": "$x",
    NESTED_CALL: "code in more than 5 magic commands or texts",
}
"""Code with shell commands, and what of them does not show which files they change."""

FOLDERS = [
    "elsewhere/.git/hooks",
    ".git",
    ".git/modules",
    ".git/modules/sub",
    ".git/worktrees/other",
    ".git/objects",
    "{project}/.git/modules/sub",
    "{project}/.git/objects",
    "{project}/link/sub",
    ".config/nvim",
]
"""Folders from which a path may lead to a protected file."""

READERS = (
    "command_only_reads mode_letter paths_changed_by_command unreadable_part_of_command".split()
)
"""Functions of `protected_names` that read a text."""

STARTED = {
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "cat AGENTS.md")): True,
    ("subprocess.Popen", "cat", ("cat", "AGENTS.md")): True,
    ("os.posix_spawn", "/bin/cat", ("cat", "AGENTS.md")): True,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "cat AGENTS.md; rm AGENTS.md")): False,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "cat $1", "sh", "AGENTS.md")): False,
    ("subprocess.Popen", "rm", ("cat", "AGENTS.md")): False,
    ("subprocess.Popen", "/tmp/cat", ("cat", "AGENTS.md")): False,
    ("os.exec", b"/bin/rm", (b"cat", b"AGENTS.md")): False,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "ls $HOME; echo $x")): True,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "rm AGEN''TS.md")): False,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "rm A*.md")): False,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "rm B*.md")): True,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "rm $x")): False,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "rm AGENT[^x].md")): False,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "rm AGENT[[:upper:]].md")): False,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "rm AGENTS.c[sv]*")): True,
    ("subprocess.Popen", "/bin/sh", ("/bin/sh", "-c", "cd sub; rm *.md")): False,
    ("subprocess.Popen", "rm", ("rm", "$x")): True,
    ("subprocess.Popen", "bash", ("bash", "-lc", "sh -c 'rm $x'")): False,
}
"""Programs with their arguments, and whether they only read."""


@pytest.mark.parametrize("path", PROTECTED)
def test_protected_paths_are_known_by_name(path: str) -> None:
    assert is_protected(path)


@pytest.mark.parametrize("path", ORDINARY)
def test_other_paths_are_not_protected(path: str) -> None:
    assert not is_protected(path)


def test_a_file_that_says_where_a_repository_is_is_protected(project: Path) -> None:
    assert leads_to_protected("part/.git")
    Path(".git").write_text("gitdir: elsewhere")
    assert leads_to_protected(".git")
    Path("clone/.git").mkdir(parents=True)
    assert not leads_to_protected("clone/.git")
    assert not leads_to_protected(".gitignore")


def test_hooks_of_a_repository_with_another_name_are_protected(project: Path) -> None:
    for folder in ("bare/hooks", "bare/refs", "named/hooks", "tree", "other/hooks"):
        Path(folder).mkdir(parents=True)
    Path("bare/HEAD").touch()
    assert leads_to_protected("bare/hooks/new")
    assert leads_to_protected("bare/config")
    assert not leads_to_protected("bare/HEAD")
    Path("tree/.git").write_text(f"gitdir: {project}/named\n")
    assert not leads_to_protected("named/hooks/new")
    os.chdir("tree")
    assert leads_to_protected("../named/hooks/new")
    assert not leads_to_protected("../other/hooks/new")


def test_a_link_to_a_protected_file_is_protected(project: Path) -> None:
    (project / "AGENTS.md").touch()
    (project / "notes").symlink_to("AGENTS.md")
    assert leads_to_protected("notes")
    assert leads_to_protected("missing/../notes")
    assert not leads_to_protected("others")


def test_links_are_followed_in_a_removed_working_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".bashrc").touch()
    (project / "notes").symlink_to(".bashrc")
    (project / "AGENTS.md").touch()
    os.link(project / "AGENTS.md", project / "twin")
    (project / "gone").mkdir()
    os.chdir(project / "gone")
    (project / "gone").rmdir()
    assert leads_to_protected(f"{project}/notes")
    assert not leads_to_protected(f"{project}/others")
    monkeypatch.setenv("HOME", str(project))
    assert leads_to_protected("~/notes")
    assert is_hard_link(f"{project}/twin")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells where the folder was")
def test_a_path_out_of_a_removed_working_folder_is_followed(project: Path) -> None:
    (project / "notes").symlink_to(".bashrc")
    (project / "gone").mkdir()
    os.chdir(project / "gone")
    (project / "gone").rmdir()
    assert leads_to_protected("../notes")


@pytest.mark.parametrize("code", MAY_CHANGE)
def test_code_that_may_change_a_protected_file_is_found(code: str) -> None:
    assert any(map(is_protected, protected_candidates(code)))


@pytest.mark.parametrize("code", ONLY_READS)
def test_code_that_only_reads_a_protected_file_is_not_asked_about(code: str) -> None:
    assert not any(map(is_protected, protected_candidates(code)))


@pytest.mark.parametrize(
    "code",
    [
        "%%writefile nu\nrm x",
        "%%html fish\nrm x",
        "%%python zsh\nrm = 1",
        "%cd fish",
        "%run nu",
        "%edit nu",
        "%foo sh",
        "%%writefile sh\nrm x",
    ],
)
def test_a_magic_command_that_only_mentions_a_shell_is_no_command_of_a_shell(code: str) -> None:
    assert shell_commands(code) == []


def test_code_for_python_is_not_read_as_commands_of_a_shell() -> None:
    assert shell_commands("%%script python3 $FLAGS\nrm = 1") == ["python3 $FLAGS"]
    assert shell_commands("%%python -Wonce\nrm = 1") == ["python -Wonce"]


@pytest.mark.parametrize(("code", "part"), UNREADABLE.items())
def test_a_command_that_does_not_show_what_it_changes_is_found(code: str, part: str) -> None:
    assert unreadable_command_part(code) == part


@pytest.mark.parametrize(("event", "only_reads"), STARTED.items())
def test_programs_that_may_change_a_protected_file_do_not_start(
    project: Path, event: tuple[str, str | bytes, tuple[str | bytes, ...]], *, only_reads: bool
) -> None:
    attribution = CellAttribution()
    files = ProtectedFiles(attribution)
    files.guard(1)
    attribution.begin(1)
    (project / "AGENTS.md").touch()
    (project / "sub").mkdir()
    (project / "sub" / "CLAUDE.md").touch()
    name, program, arguments = event
    with nullcontext() if only_reads else pytest.raises(PermissionError, match="protected"):
        files.check(name, (program, list(arguments), None, None))
    attribution.end()


@pytest.fixture
def files() -> Iterator[ProtectedFiles]:
    """Guards a cell, which runs."""
    attribution = CellAttribution()
    files = ProtectedFiles(attribution)
    files.guard(1)
    attribution.begin(1)
    yield files
    attribution.end()


@pytest.mark.parametrize(
    ("command", "is_refused"),
    [
        ("vim $x", True),
        ("vim AGEN''TS.md", True),
        ("trap : INT QUIT; vim notes.md", False),
        ("cat AGENTS.md", False),
    ],
)
def test_commands_that_need_the_terminal_are_read_too(
    files: ProtectedFiles, command: str, *, is_refused: bool
) -> None:
    with pytest.raises(PermissionError, match="protected") if is_refused else nullcontext():
        files.check("mahtab_tui.terminal", (["/bin/sh", "-c", command],))


@pytest.mark.parametrize("words", [("rm", "hooks/post-merge"), ("sh", "-c", "rm hook*/*")])
def test_programs_are_refused_by_the_folder_in_which_they_start(
    project: Path, files: ProtectedFiles, words: tuple[str, ...]
) -> None:
    hooks = project / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-merge").touch()
    files.check("subprocess.Popen", (words[0], words, None, None))
    with pytest.raises(PermissionError, match="is protected"):
        files.check("subprocess.Popen", (words[0], words, project / ".git", None))


def test_a_pattern_is_refused_whatever_else_it_stands_for(
    project: Path, files: ProtectedFiles
) -> None:
    for folder in "abc":
        (project / folder).mkdir()
    *first_folders, last_folder = os.listdir(project)
    for folder in first_folders:
        for index in range(600):
            (project / folder / f"{index}.md").touch()
    (project / last_folder / "AGENTS.md").touch()
    with pytest.raises(PermissionError, match=r"AGENTS\.md is protected"):
        files.check("os.system", ("rm [abc]/*.md",))


@pytest.mark.parametrize(
    ("pattern", "module", "limit", "value"),
    [
        ("{project}/*/*x", named_files, "_MAX_PATTERN_LEVELS", 1),
        ("{project}/[abc]/*.md", protected_commands, "_MAX_MATCHING_S", 0),
    ],
)
def test_a_pattern_for_very_many_files_is_refused_in_time(
    project: Path,
    files: ProtectedFiles,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    module: ModuleType,
    limit: str,
    value: int,
) -> None:
    monkeypatch.setattr(module, limit, value)
    (project / "a").mkdir()
    for name in ("first.md", "second.md"):
        (project / "a" / name).touch()
    with pytest.raises(PermissionError, match="names too many to look at"):
        files.check("os.system", (f"rm {pattern.format(project=project)}",))


def test_the_deadline_counts_also_while_no_file_matches(project: Path) -> None:
    (project / "a.txt").touch()
    deadline = named_files.MatchingDeadline(0)
    paths = named_files._matching_paths(str(project), ["*.md"], deadline)
    with pytest.raises(PermissionError, match="names too many to look at"):
        list(paths)


def test_a_long_command_in_a_nested_shell_counts_as_unreadable() -> None:
    command = f"sh -c 'cat a{' ' * 20_000}; rm AGENTS.md'"
    assert unreadable_part_of_command(command) == "more than 20,000 characters"
    assert "AGENTS.md" in paths_changed_by_command(command)


@pytest.mark.parametrize("path", FOLDERS)
def test_folders_with_protected_files_are_not_opened(
    project: Path, files: ProtectedFiles, path: str
) -> None:
    for folder in (".git/modules/sub", ".git/objects", ".config/nvim"):
        (project / folder).mkdir(parents=True)
    (project / "link").symlink_to(".git/modules")
    for flags in (os.O_RDONLY, os.O_PATH | os.O_WRONLY):
        with pytest.raises(PermissionError):
            files.check("open", (path.format(project=project), None, flags))


def test_files_and_other_folders_are_opened(project: Path, files: ProtectedFiles) -> None:
    (project / ".git" / "modules" / "sub").mkdir(parents=True)
    index = project / ".git" / "modules" / "sub" / "index"
    index.touch()
    files.check("open", (str(index), None, os.O_RDONLY))
    files.check("open", (".git/modules/sub/index.lock", None, os.O_WRONLY | os.O_CREAT))
    files.check("open", (".git/HEAD", "r", os.O_RDONLY))
    for path in (".", "missing", str(project)):
        files.check("open", (path, None, os.O_RDONLY))


def test_a_nested_repository_is_not_moved(project: Path, files: ProtectedFiles) -> None:
    nested = project / ".git" / "worktrees" / "other"
    nested.mkdir(parents=True)
    (nested / "index.lock").touch()
    files.check("os.rename", (str(nested / "index.lock"), str(nested / "index"), -1, -1))
    for folder in (".git/worktrees/other", ".git/worktrees", str(nested)):
        with pytest.raises(PermissionError, match="is protected"):
            files.check("os.rename", (folder, "elsewhere", -1, -1))
        with pytest.raises(PermissionError, match="is protected"):
            files.check("os.rename", ("elsewhere", folder, -1, -1))


@pytest.mark.parametrize(
    ("event", "rest"),
    [
        ("os.chmod", (0o600, -1)),
        ("os.chown", (0, 0, -1)),
        ("os.utime", (None, None, -1)),
        ("os.truncate", (0,)),
        ("os.setxattr", ("user.x", b"", 0)),
        ("os.removexattr", ("user.x",)),
        ("os.chflags", (0,)),
    ],
)
def test_a_protected_file_is_not_changed_by_its_descriptor(
    project: Path, files: ProtectedFiles, event: str, rest: tuple[object, ...]
) -> None:
    assert event in EVENTS
    (project / "AGENTS.md").touch()
    (project / "notes.md").touch()
    for name in ("AGENTS.md", "notes.md"):
        fd = os.open(name, os.O_RDONLY)
        with nullcontext() if name == "notes.md" else pytest.raises(PermissionError):
            files.check(event, (fd, *rest))
        with nullcontext() if name == "notes.md" else pytest.raises(PermissionError):
            files.check(event, (name, *rest))
        os.close(fd)


def test_paths_that_begin_in_an_open_folder_are_resolved_there(
    project: Path, files: ProtectedFiles
) -> None:
    (project / "sub").mkdir()
    (project / ".config" / "fish").mkdir(parents=True)
    (project / "sub" / "link").symlink_to(project / ".config" / "fish")
    fd = os.open("sub", os.O_RDONLY)
    path = "link/config.fish"
    events = {
        "os.remove": (path, fd),
        "os.mkdir": (path, 0o700, fd),
        "os.chmod": (path, 0o600, fd),
        "os.rename": ("notes.md", path, -1, fd),
        "os.link": ("notes.md", path, -1, fd),
        "open": (path, None, os.O_WRONLY | os.O_CREAT),
    }
    for event, arguments in events.items():
        with pytest.raises(PermissionError):
            files.check(event, arguments)
    os.close(fd)
    files.check("open", (path, None, os.O_WRONLY | os.O_CREAT))


def test_an_old_hard_link_to_a_protected_file_is_not_written(
    project: Path, files: ProtectedFiles
) -> None:
    (project / "AGENTS.md").touch()
    os.link(project / "AGENTS.md", project / "twin")
    os.link(project / "twin", project / "notes.md")
    for event, arguments in {
        "open": ("twin", "a", 0),
        "os.truncate": ("twin", 0),
        "os.system": ("echo x > twin",),
    }.items():
        with pytest.raises(PermissionError, match="twin is protected"):
            files.check(event, arguments)
    files.check("os.remove", ("notes.md", -1))
    (project / "AGENTS.md").unlink()
    files.check("open", ("twin", "a", 0))


def test_a_folder_with_protected_files_in_it_is_not_moved(
    project: Path, files: ProtectedFiles
) -> None:
    (project / "sub" / "deep").mkdir(parents=True)
    files.check("os.rename", ("sub", "other", -1, -1))
    (project / "sub" / "deep" / "repository" / "objects").mkdir(parents=True)
    (project / "sub" / "deep" / "repository" / "HEAD").touch()
    with pytest.raises(PermissionError, match="repository/config is protected"):
        files.check("os.rename", ("sub", "other", -1, -1))
    shutil.rmtree(project / "sub" / "deep" / "repository")
    (project / "sub" / "deep" / "AGENTS.md").touch()
    with pytest.raises(PermissionError, match=r"sub/deep/AGENTS\.md is protected"):
        files.check("os.rename", ("sub", "other", -1, -1))


def test_a_folder_is_moved_from_another_folder_only_without_protected_files(
    project: Path, files: ProtectedFiles
) -> None:
    (project / "outer" / "sub").mkdir(parents=True)
    fd = os.open("outer", os.O_RDONLY)
    try:
        files.check("os.rename", ("sub", "other", fd, -1))
        (project / "outer" / "sub" / "AGENTS.md").touch()
        with pytest.raises(PermissionError, match=r"outer/sub/AGENTS\.md is protected"):
            files.check("os.rename", ("sub", "other", fd, -1))
    finally:
        os.close(fd)


def test_a_folder_with_too_many_entries_to_look_at_is_not_moved_or_removed(
    project: Path, files: ProtectedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_places, "MAX_SEARCHED_ENTRIES", 10)
    (project / "sub" / "z").mkdir(parents=True)
    for number in range(9):
        (project / "sub" / f"{number}.txt").touch()
    call = FileCall("rename", "rename", 0, (f"{project}/sub", f"{project}/other"))
    files.check("os.system", ("rm -r sub",))
    files.check("os.rename", ("sub", "other", -1, -1))
    assert not changed_protected_path(call, os.getpid(), "")
    (project / "sub" / "z" / ".claude").touch()
    with pytest.raises(PermissionError, match="names too many to look at"):
        files.check("os.system", ("rm -r sub",))
    with pytest.raises(PermissionError, match="too many entries to look at"):
        files.check("os.rename", ("sub", "other", -1, -1))
    assert changed_protected_path(call, os.getpid(), "") == f"{project}/sub"


@pytest.mark.parametrize(
    "address", ["file:AGENTS.md?mode=rwc", "file:AGENTS%2Emd", "file:///x/AGENTS.md#y"]
)
def test_an_address_of_a_database_is_read_as_a_path(files: ProtectedFiles, address: str) -> None:
    files.check("sqlite3.connect", (address.replace("AGENTS", "notes"),))
    with pytest.raises(PermissionError):
        files.check("sqlite3.connect", (address,))


@pytest.mark.parametrize("address", ["CLAUDE.md", b"CLAUDE.md", memoryview(b"./CLAUDE.md")])
def test_no_socket_gets_the_name_of_a_protected_file(
    project: Path, files: ProtectedFiles, address: object
) -> None:
    for harmless_address in ("socket", b"\0CLAUDE.md", ("127.0.0.1", 0), 0):
        files.check("socket.bind", (None, harmless_address))
    with pytest.raises(PermissionError, match="is protected"):
        files.check("socket.bind", (None, address))


class Misnamed(str):
    """A path that says something else of itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return "notes.md"


class MisnamedBytes(bytes):
    """A path of another type than bytes."""

    __slots__ = ()


class ChangingBytes(bytes):
    """Bytes that give others when they are converted."""

    __slots__ = ()

    def __bytes__(self) -> bytes:
        return b"safe"


class ChangingByteArray(bytearray):
    """Bytes that give others to whoever looks at them, and say that they are a tuple."""

    __class__ = tuple  # type: ignore[assignment]

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(b"safe")


class TupleWithBytes(tuple[()]):
    """A tuple that is a path for the system."""

    __slots__ = ()

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(b"AGENTS.md")


@pytest.mark.parametrize(
    "address", [ChangingBytes(b"AGENTS.md"), ChangingByteArray(b"AGENTS.md"), TupleWithBytes()]
)
def test_no_socket_gets_a_name_from_bytes_of_a_users_class(
    project: Path, files: ProtectedFiles, address: object
) -> None:
    with pytest.raises(PermissionError, match="may be the path of a protected file"):
        files.check("socket.bind", (None, address))


class PathOfBytes:
    """A path object whose path is bytes."""

    def __fspath__(self) -> bytes:
        return b"AGENTS.md"


@pytest.mark.parametrize(
    "path", [Misnamed("AGENTS.md"), MisnamedBytes(b"AGENTS.md"), PathOfBytes()]
)
def test_path_of_a_users_class_is_read_as_the_system_reads_it(path: object) -> None:
    attribution = CellAttribution()
    files = ProtectedFiles(attribution)
    files.guard(1)
    attribution.begin(1)
    with pytest.raises(PermissionError, match="is protected"):
        files.check("os.remove", (path, -1))
    with pytest.raises(PermissionError, match="is protected"):
        files.check("open", (path, "w", 0))


def test_texts_of_long_code_are_found_in_linear_time() -> None:
    nested = "f(" * 90 + "'AGENTS.md'" + ")" * 90
    assert "AGENTS.md" in protected_candidates(nested)
    assert "AGENTS.md" in protected_candidates("x = 1\n" * 50_000 + "open('AGENTS.md', 'w')")
    sums = "x = " + "+".join(["'a'"] * 900) + "\n"
    assert protected_candidates(sums * 25) == ["a"]


def test_a_command_of_many_texts_is_read() -> None:
    texts = " + ".join(["'rm '", *["'x'"] * 1_200, "' $y'"])
    code = f"os.system({texts})"
    assert unreadable_command_part(code) == "$y"
    assert "x" * 1_200 in protected_candidates(code)


@pytest.mark.parametrize("function", [protected_candidates, unreadable_command_part])
@pytest.mark.parametrize(
    ("repeated", "form"),
    {
        "'a', ": "subprocess.run([{}])",
        "subprocess.run(command)\n": "{0}command = ['a']\n{0}",
        "command = 'x'\nos.system(command)\n": "{}",
        "command = ['x']\nsubprocess.run(command)\n": "{}",
        "command = ": "{0}['a']\n{0}['b']\n",
        "mode='r', ": "open({0}'a')\nopen({0}'b')",
    }.items(),
)
def test_work_for_repeated_code_is_linear(
    function: Callable[[str], object],
    repeated: str,
    form: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_chars = 0

    def count(reader: Callable[[str], object], text: str) -> object:
        nonlocal read_chars
        read_chars += len(text)
        return reader(text)

    for name in READERS:
        reader = partial(count, getattr(protected_names, name))
        monkeypatch.setattr(protected_names, name, reader)
    sizes = []
    for repetitions in (50, 200):
        read_chars = 0
        function(form.format(repeated * repetitions))
        sizes.append(read_chars)
    assert sizes[1] <= 6 * sizes[0]


def test_commands_in_many_magics_are_found_in_linear_time() -> None:
    assert unreadable_command_part(f"{'%time ' * 15_000}!rm $x")
    assert unreadable_command_part("%time !rm $x\n" * 5_000) == "$x"


@pytest.mark.skipif(sys.platform != "linux", reason="files are watched on Linux only")
def test_a_kernel_moves_files_into_and_out_of_the_folder_of_its_variables(tmp_path: Path) -> None:
    own_folder = f"{tmp_path}/.mahtab/kept/"
    inside = f"{own_folder}value"
    outside = str(tmp_path / "value")
    for paths in ([inside, outside], [outside, inside]):
        rename = FileCall("rename", "rename", 0, paths)
        assert changed_protected_path(rename, os.getpid(), own_folder) == ""
        assert changed_protected_path(rename, os.getpid(), "") == inside
