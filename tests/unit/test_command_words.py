"""Shell commands: those that may change protected files are asked about, however they are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from mahtab_tui.worker.cells.attribution import CellAttribution
from mahtab_tui.worker.guard.command_words import MAX_PLACES
from mahtab_tui.worker.guard.protected import ProtectedFiles
from mahtab_tui.worker.guard.protected_commands import (
    paths_changed_by_command,
    unreadable_part_of_command,
)
from mahtab_tui.worker.guard.protected_places import is_protected

MAY_CHANGE = """
chdir .git && rm config
cd .g* && rm config
cd .git && dd of=config
cd .git; (cd /tmp); rm config
cd .git | rm config
cd -; rm config
cd a b; rm config
pushd +1; rm config
f() { rm config; }; cd .git; f
trap 'rm config' EXIT; cd .git
for i in 1 2; do cd x; done; rm config
cd a; cd b; cd c; cd d; cd e; cd f; cd g; cd h; rm config
HOME=.git; cd; rm config
CDPATH=.git; cd hooks; rm post-merge
printf -v HOME .git; cd; rm config
printf -vHOME .git; cd; rm config
printf -v HOME %s%s .g it; cd; touch config
printf -v $x .git; cd; rm config
read HOME < x; cd; rm config
read -r HOME < x; cd; rm config
mapfile -t HOME < x; cd; rm config
readarray HOME < x; cd; rm config
getopts a: HOME; cd; rm config
for HOME in x; do cd; rm config; done
select HOME in x; do cd; rm config; done
export HOME; cd; rm config
export $x; cd; rm config
unset HOME; cd; rm config
unset x $y; cd; rm config
export x=$y; cd; rm config
x="a HO"; y="ME=.git"; export z=$x$y; cd; rm config
export x=`cat y`; cd; rm config
export x="a"$y; cd; rm config
export x="a"$HOM""E; cd; rm config
export x=\\$$y; cd; rm config
export x="$@"; cd; rm config
export x=$((`cat y`)); cd; rm config
export x=$((z)); cd; rm config
mapfile -t y < f; \\export x="${y[@]}"; cd; rm config
command export x="${y[@]:1}"; cd; rm config
builtin export x="$y[@]"; cd; rm config
y='z[@]'; export x="${!y}"; cd; rm config
export x="${=y}"; cd; rm config
export x="$=y"; cd; rm config
export x="${^y}"; cd; rm config
export x="${(@)y}"; cd; rm config
export x="${(s: :)y}"; cd; rm config
unset 'HOME[0]'; cd; rm config
unset PWD[0]; cd; rm config
readonly x=${y}; cd; rm config
f() { local x=$(cat y); cd; rm config; }; f
declare -n x=HOME; x=.git; cd; rm config
local -n x; x=HOME; x=.git; cd; rm config
coproc HOME (ls); cd; rm config
z=HO; z+=ME=5; ((z)); cd; rm config
echo $((z)); cd; rm config
z=GLOBIGN; z+=ORE=5; : $((z)); rm */config
((GLOBIGNORE++)); rm */config
[[ GLOBIGNORE++ -eq 0 ]]; rm */config
z='a[$(cd .g*; rm c*)]'; echo $((z))
z='a[$(cd .g*; rm c*)]'; echo "$((1 + z))"
z='a[$(cd .g*; rm c*)]'; echo $(($z))
z='a[$(cd .g*; rm c*)]'; echo $[z]
z='a[$(cd .g*; rm c*)]'; ((z))
z='a[$(cd .g*; rm c*)]'; for ((i=0; i<z; i++)); do break; done
z='a[$(cd .g*; rm c*)]'; let z
z='a[$(cd .g*; rm c*)]'; builtin l""et z
z='a[$(cd .g*; rm c*)]'; [[ z -eq 1 ]]
z='a[$(cd .g*; rm c*)]'; [[ 1 -lt "$z" ]]
z='a[$(cd .g*; rm c*)]'; [[ x > y || (z -eq 2) ]]
z='a[$(cd .g*; rm c*)]'; [[ -n $(ls) && z -eq 2 ]]
z='a[$(cd .g*; rm c*)]'; [[ $(echo z) -gt 2 ]]
z='a[$(cd .g*; rm c*)]'; [[ `echo z` -gt 2 ]]
z='a[$(cd .g*; rm c*)]'; echo ${x:z}
z='a[$(cd .g*; rm c*)]'; echo "${@:1:z}"
z='a[$(cd .g*; rm c*)]'; echo ${x[z]}
z='a[$(cd .g*; rm c*)]'; echo "${#x[z]}"
z='a[$(cd .g*; rm c*)]'; x[z]=1
z='a[$(cd .g*; rm c*)]'; x=(y [z]=1)
z='a[$(cd .g*; rm c*)]'; read 'x[z]' <<< 1
z='a[$(cd .g*; rm c*)]'; test -v "$z"
z='a[$(cd .g*; rm c*)]'; echo ${!z}
z='a[$(cd .g*; rm c*)]'; declare -i x=z
z='a[$(cd .g*; rm c*)]'; f() { local -i x; x=z; }; f
z='a[$(cd .g*; rm c*)]'; typeset -ai x; read -a x <<< z
z='a[$(cd .g*; rm c*)]'; RANDOM=z
z='a[$(cd .g*; rm c*)]'; for SRANDOM in z; do :; done
z='a[$(cd .g*; rm c*)]' bash -c 'echo $((z))'
env z='a[$(cd .g*; rm c*)]' bash -c 'echo $((z))'
: ${z:='a[$(cd .g*; rm c*)]'}; ((z))
: ${z:=b}; ((z)); b='a[$(cd .g*; rm c*)]'; ((z))
z=('a[$(cd .g*; rm c*)]'); ((z))
z=$(base64 -d < x); ((z))
z=`base64 -d < x`; ((z))
printf -v z '%b' 'a[\x24(cd .g*; rm c*)]'; ((z))
printf -vz '%b' 'a[\x24(cd .g*; rm c*)]'; ((z))
read -r z < x; ((z))
while read -r z; do echo $((z)); done < x
for z in $(cat x); do echo $((z)); done
f() { echo $(($1)); }; f "$x"
wc() { base64 -d < x; }; z=$(ls | wc -l); ((z))
git() { base64 -d < x; }; z=$(git rev-list --count HEAD); ((z))
z=$(grep -c x *); ((z))
z=$(cat x; echo '| wc -l' | wc -l); ((z))
z=$(cat x '| wc -l'); ((z))
z=$(grep -c -H x); ((z))
z=$(git rev-list --count --branches); ((z))
z=$(date +%N); ((z))
z=$(date +%s%s%N); ((z))
z=$(stat -c %n x); ((z))
z=$(stat -c %s x y); ((z))
echo $(( $(cd .git; rm config | wc -l) / 2 ))
echo $(( $(rm .git/config | wc -l) / 2 ))
echo $(( $(cat x | sh | wc -l) / 2 ))
while read -r a b; do echo $((a+b)); done < x
x=${1:-5}; echo $((x*2))
nproc() { base64 -d < x; }; echo $(($(nproc)))
: 'a[$(cd .g*; rm c*)]'; echo $((_))
[[ 'a[$(cd .g*; rm c*)]' =~ .* ]]; echo $((BASH_REMATCH))
read <<< 'a[$(cd .g*; rm c*)]'; ((REPLY))
test -v 'a[$(cd .g*; rm c*)]'
[ -n x -a -v 'a[$(cd .g*; rm c*)]' ]
[[ -v 'a[$(cd .g*; rm c*)]' ]]
unset 'a[$(cd .g*; rm c*)]'
printf -v 'a[$(cd .g*; rm c*)]' 1
declare 'a[$(cd .g*; rm c*)]=1'
let 'a[$(cd .g*; rm c*)]'
x='$(cd .g*; rm c*)'; echo "${x@P}"
: <<< "${x@P}"
PS4='$(cd .g*; rm c*)'; set -x; ls
compgen -C 'cd .g*; rm c*'
nu -c 'cd .g*; rm c*'
sudo -u bob nu -c 'cd .g*; rm c*'
timeout 5 ysh -c 'cd .g*; rm c*'
ls | nice -n 5 osh
env -u x fc -s
mapfile -C 'cd .g*; rm c*;' -c 1 x < notes.md
readarray -tC 'cd .g*; rm c*;' x < notes.md
history -s 'cd .g*; rm c*'; fc -s
set -o history -o histexpand; echo cdq.git
set -H; echo cdq.git
trap -- 'cd .g*; rm c*' EXIT
z='a[$(cd .g*; rm c*)]'; true {x[z]}< notes.md
z='a[$(cd .g*; rm c*)]'; y=-v; test $y 'x[z]'
z='a[$(cd .g*; rm c*)]'; y=v; [ -$y "x[z]" ]
z='a[$(cd .g*; rm c*)]'; test $(echo -v) "x[z]"
x='-v b[$(cd${IFS}.g*;rm${IFS}c*)]'; [ $x ]
x=-v; printf "$x" 'b[$(cd .g*; rm c*)]' 1
x=-v; printf $x HOME 5; cd; rm config
printf $'-v' HOME 5; cd; rm config
x='-p HOME'; wait -n $x; cd; rm config
x='-va[$(cd .g*; rm c*)]'; printf "$x" 1
x='va[$(cd .g*; rm c*)]'; printf "-$x" 1
x='va[$(cd .g*; rm c*)]'; printf -"$x" 1
x='a[$(cd .g*; rm c*)]'; printf -v"$x" 1
x='-va[$(cd .g*; rm c*)]'; printf -v y "$x" 1
x=-va; y='[$(cd .g*; rm c*)]'; printf "$x$y" 1
x='-va[$(cd .g*; rm c*)'; y=']'; printf "$x: $y" 1
x='-va[$(cd .g*; rm c*)'; printf "$x: 1]" 1
printf "$(echo '-va[$(cd .g*; rm c*)]')" 1
printf "`cat x`" 1
x='-va[$(cd .g*; rm c*)]'; builtin printf "$x" 1
y=(-v 'a[$(cd .g*; rm c*)]' 1); printf "${y[@]}"
y=(-v 'a[$(cd .g*; rm c*)]' 1); printf "${y[@]}\\n"
f() { printf "$@"; }; f -v 'a[$(cd .g*; rm c*)]' 1
printf $'\\x2dvHOME' .git; cd; rm config
printf $'\\055vHOME' .git; cd; rm config
printf -$'\\x76HOME' .git; cd; rm config
x='-vHOME'; printf "$x" /tmp/x; rm ~/.bashrc
printf -v x -v HOME .git; cd; rm config
y=(-v 'a[$(cd .g*; rm c*)]'); test "${y[@]}"
y=(-v 'a[$(cd .g*; rm c*)]'); [ "${y[@]}" ]
f() { [ "$@" ]; }; f -v 'a[$(cd .g*; rm c*)]'
x='-pa[$(cd .g*; rm c*)]'; wait -n "$x"
x='pa[$(cd .g*; rm c*)]'; wait -n"$x"
x=-p; y='a[$(cd .g*; rm c*)]'; wait "$x" "$y"
y=(-p 'a[$(cd .g*; rm c*)]'); wait "${y[@]}"
wait -np HOME; cd; rm config
z="$(nproc) + a[\\$(cd .g*; rm c*)]"; echo $((z))
z=$(cat x; ls | wc -l); echo $((z))
z=$(cat x || ls | wc -l); echo $((z))
for z in $(seq 1) 'a[$(cd .g*; rm c*)]'; do echo $((z)); done
bash +c 'cd .g*; rm c*'
ksh -c '[ "$x" -eq 1 ]'
fish -c 'x (ls)'
true {HOME}< x; cd; rm config
echo ${CDPATH:=.git}; cd hooks; rm x
echo ${!x:=.git}; cd; rm config
let x=1,HOME=5; cd; rm config
((x=1,HOME=5)); cd; rm config
wait -p HOME; cd; rm config
printf -v GIT_SSH_COMMAND ./x; git fetch
setenv HOME x; cd; rm config
GLOBIGNORE=x; rm */config
BASH_ENV=.git/x bash y
shopt -s dotglob; rm */config
bash -O dotglob -c 'rm */config'
rm AGENT@(S).md
zsh -c 'rm (A|B)GENTS.md'
fish -c 'rm (echo AGENTS).md'
/bin/r? notes.md
read PATH < x; cd .git; cat config
export PA""TH=$HOME/x; cd .git; cat config
let PA""TH=7; cd .git; cat config
printf -vPATH x; cd .git; cat config
for PATH in x; do cd .git; cat config; done
((PATH++)); cd .git; cat config
: ${PATH:=x}; cd .git; cat config
true {PATH}< x; cd .git; cat config
test -v "x[PATH=5]"; cd .git; cat config
alias ls=rm; cd .git; ls config
ls() { rm "$@"; }; cd .git; ls config
ls() (command rm config); cd .git; ls
PATH=.; cd .git; cat config
PATH=. ls PATH=.; cd .git; cat config
nice -n 5 xargs rm
timeout 5 xargs rm
coproc xargs rm
sudo -u bob sh
stdbuf -oL bash
bash /dev/stdin
. /dev/stdin
source <(echo rm AGEN*)
env -C .git rm config
env -S 'rm AGENT${x}S.md'
bash -c -o errexit 'cd .git; rm config'
bash -c -o errexit 'rm $x'
script -c 'cd .git; rm config' out
su -c 'cd .git; rm config'
watch 'cd .git; rm config'
flock x -c 'cd .git; rm config'
cp notes.md .git
cp -t .git config
rm -rf .git
mv .git x
mv x .git/
ln -s ../x .git
rsync -a x/ clone.git/
tar -C .git -xf x.tar
tar -xf x.tar --directory=.git
cp config.fish ~/.config
sort -oAGENTS.md x
cd .git; sort -oconfig x
cd .git; sort --output=config x
cd .git; echo x >| config
cd .git; echo x &> config
cd .git; echo x <> config
git submodule sync
git submodule deinit x
git submodule foreach 'cd .git; rm config'
git submodule add ./x
git worktree prune
git worktree add ../x
git remote add x y
git remote rename x y
git branch -u origin/x
git branch -d x
git branch --un
git branch x origin/x
git branch -f x origin/x
git branch --format --list x origin/x
git push -qu origin x
git push --set-upstream origin x
git checkout -t origin/x
git checkout -b x origin/x
git switch -c x origin/x
git config --add a.b c
git config set a.b c
git config --comment --list a.b c
git config --com=x --list a.b c
git config -f --list a.b c
git config --uns a.b
git config --rem a
git sparse-checkout set a
git lfs install
git maintenance start
git -c core.pager='cd .git; rm config' -p log
git -c alias.x='!cd .git; rm config' x
git -ccore.fsmonitor=./x status
git --exec-path=. log
git rebase -x 'make x' HEAD~1
git rebase --exec=x HEAD~1
git rebase --ex "./x" HEAD~1
git ls-remote --e ./x origin
git -c protocol.ext.allow=always fetch
git ls-remote ext::./x
git fetch -q ext::./x main
git archive --remote=ext::./x HEAD
git archive --remote ext::./x HEAD
GIT_ALLOW_PROTOCOL=ext git fetch
git grep -Ox y
git fetch --upload-pack ./x origin
git bisect run ./x
GIT_EDITOR='cd .git; rm config;' git commit
GIT_CONFIG_COUNT=1 git log
GIT_DIR=x git config a b
PAGER='sh -c x' git log
""".strip().splitlines()
"""Commands that change `.git/config` or another protected file, or do not show that they do not."""

HARMLESS = """
ls
ls -la .git
ls $HOME; echo $x | wc -l
grep -r x .
grep -rn xargs src
find . -name '*.py'
find . -path ./.git -prune -o -name '*.py' -print
head file | sort
cat notes.md | wc -l
sort data.csv | uniq -c | head
wc -l *.csv
du -sh .git
which git
env | grep PATH
date
echo $PATH; ls notes.md
test -f a && echo yes
x=1; echo $x
printf 'HOME is %s' "$HOME"
printf -v x %s 1
read -r line < notes.md
for name in HOME; do echo $name; done
export x=$HOME
export LIBRARIES=$HOME/lib:${PWD}/lib
export PYTHONPATH=src:$PYTHONPATH
export x="$y"
export x="$(pwd)"
export "x=a $y"
export OMP_NUM_THREADS="$N"; make
export x=$?
export x=$#
export x=${#y}
export x=$((1+2))
export x=$((7 * 2 > 3 ? 1 : -1))
echo $((n + 1))
echo "n = $((n+1))"
x=5; echo $((x*2))
x=5; y=$((x * 2)); echo $y $((y + 1))
i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done
for ((i=0; i<3; i++)); do echo $i; done
for i in 1 2 3; do echo "$i: $((i * 10))%"; done
for i in {1..5}; do echo $((i*i)); done
sum=0; for i in $(seq 10); do ((sum+=i)); done; echo $sum
for f in *.csv; do count=$((count + 1)); done; echo $count
for i in 1 2 3; do echo $i; done
while ((i < 3)); do ((i++)); done
n=$(wc -l < notes.md); echo $((n+1))
n=$(ls | wc -l); [[ $n -gt 3 ]] && echo many
[[ $(ls | wc -l) -gt 3 ]] && echo many
[ $(ls | wc -l) -gt 3 ] && echo many
if [[ $(id -u) -eq 0 ]]; then echo root; fi
[[ $(git rev-list --count HEAD) -gt 5 ]] && echo many
n=$(git rev-list --count HEAD~5..HEAD); echo $((n+1))
n=$(find . -name '*.py' | wc -l); echo $((n))
size=$(stat -c %s f); echo $((size/1024))
n=$(grep -c foo f); echo $((n*2))
n=$(cat f | grep -ci foo); echo $((n*2))
n=$(nproc --all); echo $((n / 2))
echo $(( $(date +%s%N) / 1000000 )) $(( $(date +%Y) + 1 ))
lines=$(wc -l < "my file.txt"); echo $((lines / 2))
echo $(( $(cat f | wc -l) / 2 ))
[ "$x" -eq 1 ] && echo one
if [[ $# -eq 0 ]]; then echo none; fi
[[ -v HOME && -n "$x" ]] && echo set
start=$(date +%s); make; echo $(( $(date +%s) - start ))
echo $(( ((1+2)) * 3 )) $((0x1f)) $((2**8)) $((1 << 4))
echo $((RANDOM % 6 + 1)) $((SECONDS / 60))
sleep $((60*2))
let x=5+3; echo $x
declare -i n=5; echo $n
declare -A m; m[key]=1; echo ${m[key]}
a=(1 2 3); echo ${a[0]} ${a[@]:1} ${#a[@]}
x=abc; echo ${x:0:2} ${x: -1} ${x%.*} ${x/a/b} ${x^^} ${x@Q}
test -v HOME && echo set
mapfile -t lines < notes.md; echo ${#lines[@]}
set -euo pipefail; ls
printf "$x\\n"; printf "$HOME: %s\\n" a; printf $'a\\tb\\n'
printf '%s\\n' $x "$y"
printf "%s\\n" "$x" "${y[@]}"
printf '%d' $n
printf -v x "%s" "$y"
printf "$x: $y\\n"; printf "$x, %s\\n" "$@"
printf "$(nproc)"; printf "$((1+2))"
printf $'\\n'; printf $'\\x1b[1m%s' "$x"
printf -- "$x\\n"
[ "${#x[@]}" -gt 0 ] && echo some
wait $!; wait "$pid"; wait -n "$pid"
make & pid=$!; wait "$pid" $!
x=notes.md; [ -f $x ] && echo yes
[ "$x" = "$y" ] || [ -z $x ]
sleep 1 & pid=$!; wait $pid
trap -- 'echo done' EXIT; ls
bash -c 'for i in 1 2; do echo $((i+1)); done'
cd src && echo $((1+2))
export x=$'a b'
unset CDPATH
unset CDPATH GIT_DIR; make
unset -f name; ls
test "$HOME" = /root
wait $x
echo ${HOME} ${x:=1}
for f in a b; do echo $f; done
echo $(( 2 * 3 ))
echo $(date)-x
echo done > log.txt
mkdir -p out && cp a.csv out/
rm -rf build
sed -i s/a/b/ notes.md
tar czf x.tgz --exclude=.git .
tar czf x.tgz --exclude .git .
cd src && ls
python train.py --layer fc
python job.py --status complete
python train.py --loss nu
npm run fc
make complete
pip install nu xonsh
cp a.csv data/nu
echo "PATH: $PATH"; ls $x
which python; echo "PATH is $PATH"
printf "PATH: %s\\n" "$PATH"; ls $x
printenv PATH; ls $x
env | grep PATH; echo "PATH=$PATH"; cat $x
cd src && python -m pytest -q
cd src; make; cd ..
. venv/bin/activate && pytest
python script.py --out=x
python -c 'print(1)'
PYTHONPATH=src python x.py
timeout 10 python x.py
pip install requests
pip install git+https://host/x.git
curl -s https://x/y | head
npm test
bash build.sh -v
git status
git log --oneline -5
git log --author find
git diff HEAD~1
git show HEAD
git branch
git branch -avv
git branch new-topic
git branch --sort=-committerdate --list 'a*' 'b*'
git branch --contains HEAD 'a*'
git checkout -b feature
git checkout main
git add notes.md
git commit -m 'A message (with a bracket)'
git stash
git push
git pull --rebase
git clean -fdx build
git cherry-pick -x abc
git config user.name
git config --list
git config --file .gitmodules --get submodule.x.url
git fetch https://host/x.git
git commit -m 'Call std::sort'
git grep std::sort
git rebase --abort
git remote -v
git submodule status
git worktree list
git bisect good
git -c color.ui=false log
git --no-pager diff
git --git-dir=.git log
""".strip().splitlines()
"""Commands that change no protected file, and that people use."""


def is_asked_about(command: str) -> bool:
    """Return whether the user is asked about a command, in a folder without links."""
    if unreadable_part_of_command(command):
        return True
    return any(map(is_protected, paths_changed_by_command(command)))


@pytest.mark.parametrize("command", MAY_CHANGE)
def test_a_command_that_may_change_a_protected_file_is_asked_about(command: str) -> None:
    assert is_asked_about(command)


@pytest.mark.parametrize("command", HARMLESS)
def test_a_harmless_command_is_not_asked_about(command: str) -> None:
    assert not is_asked_about(command)


@pytest.fixture
def files(project: Path) -> Iterator[ProtectedFiles]:
    """Guards a cell, which runs in a project with protected files."""
    for folder in (".git/hooks", "sub", "src", "links"):
        (project / folder).mkdir(parents=True)
    for name in (".git/config", "AGENTS.md", "sub/AGENTS.md", "src/main.py"):
        (project / name).touch()
    (project / "links" / "repository").symlink_to(project / ".git")
    (project / "links" / "notes").symlink_to(project / "AGENTS.md")
    attribution = CellAttribution()
    files = ProtectedFiles(attribution)
    files.guard(1)
    attribution.begin(1)
    yield files
    attribution.end()


REFUSED = [
    "cd links/repository; rm config",
    "cp notes.md links/repository",
    "cp notes.md lin*/rep*",
    "env -C links/repository rm config",
    "rm -r sub",
    "rm -r s*",
    "mv sub other",
    "cp -r sub other",
    "chmod -R 700 .",
    "cd sub; rm -r ../sub",
    f"rm {'x ' * 3_000}links/no*",
]
"""Commands that only the files show to change a protected one."""
STARTED = [
    "rm -r src",
    "mv src other",
    "cp -r src links",
    "cp notes.md .",
    "cd src; rm main.py",
    "git --git-dir=.git log",
    "tar czf x.tgz --exclude=.git src",
    "find .git -name config",
]


@pytest.mark.parametrize("command", REFUSED)
def test_a_command_is_refused_for_what_its_words_lead_to(
    files: ProtectedFiles, command: str
) -> None:
    with pytest.raises(PermissionError, match="is protected"):
        files.check("os.system", (command,))


@pytest.mark.parametrize("command", STARTED)
def test_a_command_starts_that_leaves_protected_files_alone(
    files: ProtectedFiles, command: str
) -> None:
    files.check("os.system", (command,))


@pytest.mark.parametrize(
    "variable", ["CDPATH", "BASH_ENV", "GLOBIGNORE", "LD_PRELOAD", "BASH_FUNC_ls%%"]
)
def test_a_command_is_refused_if_code_has_set_what_shells_heed(
    files: ProtectedFiles, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    program = ("rm", ("rm", "notes.md"), None)
    files.check("subprocess.Popen", (*program, dict(os.environ)))
    with pytest.raises(PermissionError, match=f"code has set {variable}"):
        files.check("subprocess.Popen", (*program, {**os.environ, variable: ".git"}))
    monkeypatch.setenv(variable, ".git")
    with pytest.raises(PermissionError, match=f"code has set {variable}"):
        files.check("os.system", ("rm notes.md",))


@pytest.mark.parametrize(
    "variable", ["BASH_ENV", "BASHOPTS", "SHELLOPTS", "LD_PRELOAD", "LD_AUDIT", "BASH_FUNC_ls%%"]
)
def test_a_reading_command_is_refused_if_code_has_set_what_runs_with_it(
    files: ProtectedFiles, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, ".git")
    for command in ("ls", "bash -c ls"):
        with pytest.raises(PermissionError, match=f"code has set {variable}"):
            files.check("os.system", (command,))


@pytest.mark.parametrize(
    "variable",
    [
        *("LESS", "LESSCLOSE", "LESSOPEN", "RIPGREP_CONFIG_PATH", "XDG_CONFIG_HOME"),
        *("LESSKEY", "LESSKEYIN", "LESSKEYIN_SYSTEM", "LESSKEY_CONTENT", "LESSKEY_SYSTEM"),
    ],
)
@pytest.mark.parametrize("command", ["rg notes", "less notes.md"])
def test_a_reading_command_is_refused_if_code_has_set_what_it_starts(
    files: ProtectedFiles, monkeypatch: pytest.MonkeyPatch, variable: str, command: str
) -> None:
    files.check("os.system", (command,))
    with pytest.raises(PermissionError, match="protected"):
        files.check("os.system", (f"{variable}=options {command}",))
    monkeypatch.setenv(variable, "options")
    with pytest.raises(PermissionError, match=f"code has set {variable}"):
        files.check("os.system", (command,))


@pytest.mark.parametrize("name", [".less", ".lesskey", ".config/less", ".config/lesskey"])
def test_a_reading_command_is_refused_in_a_new_home_folder_with_keys_for_less(
    files: ProtectedFiles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    home = tmp_path / "other home"
    (home / ".config").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    files.check("os.system", ("less notes.md",))
    (home / name).touch()
    with pytest.raises(PermissionError, match="code has set HOME"):
        files.check("os.system", ("less notes.md",))


@pytest.mark.parametrize(("home", "is_refused"), [(".", True), ("keys", True), ("", False)])
def test_a_relative_home_folder_is_looked_for_where_the_reading_command_starts(
    files: ProtectedFiles, tmp_path: Path, home: str, *, is_refused: bool
) -> None:
    start = tmp_path / "start"
    (start / "keys").mkdir(parents=True)
    for folder in (start, start / "keys"):
        (folder / ".lesskey").touch()
    command = ("/bin/sh", ["sh", "-c", "less notes.md"], str(start), {"HOME": home})
    with pytest.raises(PermissionError, match="HOME") if is_refused else nullcontext():
        files.check("subprocess.Popen", command)


@pytest.mark.parametrize("variable", ["ENV", "PS1", "CDPATH", "LD_LIBRARY_PATH"])
def test_a_reading_command_starts_whatever_else_code_has_set(
    files: ProtectedFiles, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "dev")
    files.check("os.system", ("ls",))
    files.check("subprocess.Popen", ("bash", ("bash", "-c", "cat AGENTS.md"), None, None))
    with pytest.raises(PermissionError, match=f"code has set {variable}"):
        files.check("os.system", ("rm notes.md",))


@pytest.mark.parametrize(
    ("pattern", "is_refused"),
    [
        ("*.md", True),
        ("./A*", True),
        ("su[b]/?GENTS.*", True),
        ("~/*/AGENTS.md", True),
        ("{project}/*/../AG*", True),
        ("{project}//sub//*", True),
        (".g*/conf*", True),
        ("src/*", False),
        ("*/hooks/*", False),
        ("src/[", False),
        ("*/missing/*", False),
        ("src/main.py/*", False),
    ],
)
def test_patterns_are_read_as_shells_read_them(
    files: ProtectedFiles,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    *,
    is_refused: bool,
) -> None:
    monkeypatch.setenv("HOME", str(project))
    with pytest.raises(PermissionError, match="is protected") if is_refused else nullcontext():
        files.check("os.system", (f"touch {pattern.format(project=project)}",))


@pytest.mark.parametrize(
    "command",
    ["cd a;" * 3_900 + "rm x", "cd a;" * 20 + "rm x y z;" * 1_800, "cd b;cd c;" + "rm x;" * 3_500],
)
def test_a_command_in_very_many_folders_is_asked_about(command: str) -> None:
    assert unreadable_part_of_command(command)
    assert len(list(paths_changed_by_command(command))) < 3 * MAX_PLACES
