"""Programs and words of shells by what they do with their arguments, as `simple_commands` and
`command_words` read them. Programs that stand in no table may change each file that an argument names."""

from __future__ import annotations

READ_SHELLS = frozenset("ash bash dash sh".split())
"""Shells whose commands are read here."""
_COMMON_SHELLS = READ_SHELLS | frozenset("csh fish ksh mksh tcsh zsh".split())
_RARE_SHELLS = frozenset(
    "elvish ksh93 loksh nu oksh osh pdksh posh pwsh rbash xonsh yash ysh".split()
)
SHELLS = _COMMON_SHELLS | _RARE_SHELLS
"""Programs that run a text as a command, many of them in languages of their own."""
WORDS_AS_CODE = frozenset("compgen complete eval fc xargs parallel".split())
"""Programs that make commands of words and of their input."""
CHANGES_READING = frozenset("alias bind emulate enable hash setopt shopt".split())
"""Commands after which a shell reads or runs others in another way."""
SOURCING_PROGRAMS = frozenset(("source", "."))
"""Commands that run those in a file."""

PREFIXES = frozenset(
    "env sudo doas nohup setsid time exec command builtin coproc nice ionice stdbuf then do else if"
    " elif while until ! {".split()
)
"""Words before the name of a command."""
HARMLESS = frozenset(
    "basename case cat cd chdir cmp comm cut date df diff dirname du echo export false fold for free grep file"
    " head id let ls md5sum nl nproc paste popd printenv printf ps pushd pwd read readlink realpath rev"
    " seq sha256sum sleep stat tac tail test tr true type uname unset wait wc which whoami"
    " [ [[ -d -e -f -n -s -z".split()
)
"""Commands that change no file that an argument names, and operators that begin a part of ``[[…]]``."""
COMMAND_TAKERS = frozenset("flock script su watch tmux screen xterm setpriv runuser entr".split())
"""Programs that run a text among their arguments as a command of a shell."""
INNER_PROGRAMS = frozenset(
    (*_COMMON_SHELLS, *COMMAND_TAKERS, *"env eval find git parallel xargs".split())
)
"""Programs that count as started wherever their name is an argument."""
STARTERS = frozenset(
    "env sudo doas nohup setsid time exec command builtin coproc nice ionice stdbuf timeout chroot"
    " busybox unshare nsenter strace taskset chrt prlimit".split()
)
"""Programs that start the one which their arguments name."""
STARTED_PROGRAMS = _RARE_SHELLS | WORDS_AS_CODE
"""Programs that count as started only after one of `STARTERS` or `COMMAND_TAKERS`, because their names
have other meanings."""
HARMLESS_SETTERS = frozenset("export for let printf read test unset wait [".split())
"""Harmless commands with arguments that may set variables."""
