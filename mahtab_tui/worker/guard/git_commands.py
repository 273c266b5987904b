"""Tells which commands of Git write settings of the repository, or start other programs.

Settings decide what Git starts later, so that code of a model must not write them unseen
(`command_words`). What is not known here counts as starting a program.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from .shell_words import Word

_OPTIONS_WITH_VALUE = frozenset(
    "-c -C --git-dir --work-tree --namespace --exec-path --config-env --super-prefix".split()
)
"""Options before the subcommand whose values are the next arguments."""
_KNOWN_SUBCOMMANDS = frozenset(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore"
    " checkout cherry cherry-pick clean commit config count-objects describe diff diff-files"
    " diff-index diff-tree fetch for-each-ref format-patch fsck gc grep hash-object help log ls-files"
    " ls-remote ls-tree merge merge-base mv name-rev notes pack-refs prune pull push range-diff"
    " read-tree rebase reflog remote repack rerere reset restore rev-list rev-parse revert rm"
    " shortlog show show-branch show-ref stash status submodule switch symbolic-ref tag update-index"
    " update-ref var verify-commit verify-tag version whatchanged worktree write-tree".split()
)
"""Subcommands that, as such, neither write settings nor start programs that their arguments name."""
_READING_FORMS = {
    "remote": frozenset(("", "show", "get-url", "update", "prune")),
    "submodule": frozenset(("", "status", "summary")),
    "worktree": frozenset(("list",)),
    "bisect": frozenset("start good bad new old skip reset log terms view visualize help".split()),
}
"""The words after subcommands with which they neither write settings nor start programs, although
they can do so with others."""
_READING_CONFIG_FORMS = frozenset(("get", "list", "get-all"))
"""The words after `git config` with which it only reads."""
_READING_CONFIG_OPTIONS = frozenset(
    ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l")
)
_WRITING_CONFIG_OPTIONS = frozenset(
    "--unset --unset-all --remove-section --rename-section --edit -e --add --replace-all"
    " --comment".split()
)
_CONFIG_OPTIONS_WITH_VALUE = tuple(
    "-f --file --blob -t --type --default --comment --value --url".split()
)
"""Options of `git config` after which the next argument is a value."""
_LISTING_BRANCH_OPTIONS = tuple(
    "--list --contains --no-contains --merged --no-merged --points-at".split()
)
"""Options with which `git branch` makes no branch."""
_BRANCH_OPTIONS_WITH_VALUE = ("--format", "--sort")
"""Options after which the next argument is not the name of a branch."""
_USES_REMOTES = frozenset("archive clone fetch ls-remote pull push remote submodule".split())
"""Subcommands whose words may be addresses of repositories."""
_HELPER_ADDRESS = re.compile(r"(?:-[\w-]*=?)?[A-Za-z0-9][\w.+-]{0,100}::")
"""The beginning of an address for which Git starts the program that it names, as in ``ext::program``."""
_WRITING_OPTIONS = {
    "branch": tuple(
        "-u --set-upstream-to --unset-upstream --edit-description -t --track -m -M --move -c -C"
        " --copy -d -D --delete".split()
    ),
    "checkout": ("-t", "--track"),
    "switch": ("-t", "--track"),
    "push": ("-u", "--set-upstream"),
    "pull": ("--set-upstream",),
    "fetch": ("--set-upstream",),
}
"""Options with which a subcommand writes settings of branches."""
_STARTING_OPTIONS = {
    "rebase": ("-x", "--exec"),
    "grep": ("-O", "--open-files-in-pager"),
    "fetch": ("--upload-pack",),
    "pull": ("--upload-pack",),
    "ls-remote": ("--upload-pack", "--exec"),
    "push": ("--receive-pack", "--exec"),
    "archive": ("--exec",),
}
"""Options of subcommands whose values are commands."""
_HARMLESS_SETTINGS = tuple(
    "user. author. committer. color. advice. commit.gpgsign core.quotepath core.autocrlf"
    " core.safecrlf init.defaultbranch log. http. safe.directory gc.auto diff.renames"
    " diff.algorithm fetch. column.".split()
)
"""Beginnings of settings that name no program."""


class _GitCall(NamedTuple):
    """The arguments of a call of Git."""

    settings: Sequence[str]
    """The settings that `-c` gives, as ``name=value``."""
    has_unusual_option: bool
    """Whether another option before the subcommand may name a program."""
    subcommand: str
    arguments: Sequence[str]
    """All words after the subcommand."""

    @property
    def operands(self) -> list[str]:
        """The words after the subcommand that do not begin with a dash."""
        return [text for text in self.arguments if not text.startswith("-")]

    @property
    def options(self) -> list[str]:
        """The words after the subcommand that begin with a dash."""
        return [text for text in self.arguments if text.startswith("-")]


def _read_call(arguments: Sequence[Word]) -> _GitCall:
    """Separate the arguments of Git from those of its subcommand."""
    texts = [word.text for word in arguments if not word.redirection]
    settings: list[str] = []
    has_unusual_option = False
    index = 0
    while index < len(texts) and texts[index].startswith("-"):
        option = texts[index]
        has_unusual_option |= option.startswith(("--exec-path", "--config-env"))
        index += 1
        if option in _OPTIONS_WITH_VALUE:
            if option == "-c":
                settings += texts[index : index + 1]
            index += 1
        elif option.startswith("-c"):
            settings.append(option[2:])
    subcommand = "".join(texts[index : index + 1])
    return _GitCall(settings, has_unusual_option, subcommand, texts[index + 1 :])


def changes_settings(arguments: Sequence[Word]) -> bool:
    """Return whether Git writes `.git/config` with these arguments, or `.git/hooks`."""
    call = _read_call(arguments)
    first_operand = "".join(call.operands[:1])
    if call.subcommand == "config":
        return _changes_config(call)
    if call.subcommand == "bisect":
        return False
    if call.subcommand in _READING_FORMS:
        return first_operand not in _READING_FORMS[call.subcommand]
    if call.subcommand in ("checkout", "switch") and _makes_branch(call):
        # Git notes which branch of a remote a new branch has come from.
        return len(call.operands) > 1
    if call.subcommand == "branch" and len(call.operands) > 1 and not _lists_branches(call):
        return True
    return _has_option(call.options, _WRITING_OPTIONS.get(call.subcommand, ()))


def _changes_config(call: _GitCall) -> bool:
    """Return whether a call of `git config` writes a setting."""
    if _has_option(call.options, _WRITING_CONFIG_OPTIONS):
        return True
    options = _options_without_values(call.arguments, _CONFIG_OPTIONS_WITH_VALUE)
    if not _READING_CONFIG_OPTIONS.isdisjoint(options):
        return False
    if call.operands[:1] == ["edit"]:
        return True
    # A name is read, a name with a value is written.
    return len(call.operands) > 1 and call.operands[0] not in _READING_CONFIG_FORMS


def _lists_branches(call: _GitCall) -> bool:
    """Return whether a call of `git branch` makes no branch."""
    options = _options_without_values(call.arguments, _BRANCH_OPTIONS_WITH_VALUE)
    return any(option.partition("=")[0] in _LISTING_BRANCH_OPTIONS for option in options)


def _options_without_values(arguments: Sequence[str], with_value: Sequence[str]) -> Iterator[str]:
    """Yield the options among some arguments.

    Args:
        with_value: Options after which the next argument is a value, whatever it looks like.
    """
    is_value = False
    for text in arguments:
        if is_value or not text.startswith("-"):
            is_value = False
            continue
        yield text
        is_value = "=" not in text and _has_option([text], with_value)


def _makes_branch(call: _GitCall) -> bool:
    return _has_option(call.options, ("-b", "-B", "-c", "-C", "--create", "--force-create"))


def starts_programs(arguments: Sequence[Word]) -> bool:
    """Return whether Git may start a program with these arguments that they or its settings name, or
    does what is not known."""
    call = _read_call(arguments)
    if call.has_unusual_option or not all(map(_is_harmless_setting, call.settings)):
        return True
    if call.subcommand in _USES_REMOTES and any(map(_HELPER_ADDRESS.match, call.arguments)):
        return True
    if call.subcommand == "bisect":
        return "".join(call.operands[:1]) not in _READING_FORMS["bisect"]
    if call.subcommand == "submodule":
        return call.operands[:1] == ["foreach"]
    if _has_option(call.options, _STARTING_OPTIONS.get(call.subcommand, ())):
        return True
    return call.subcommand not in ("", *_KNOWN_SUBCOMMANDS) and not _writes_repository(call)


def _writes_repository(call: _GitCall) -> bool:
    return call.subcommand in ("clone", "init", "init-db")


def makes_repository(arguments: Sequence[Word]) -> bool:
    """Return whether Git makes a repository, with settings and hooks."""
    return _writes_repository(_read_call(arguments))


def _is_harmless_setting(setting: str) -> bool:
    return setting.lower().startswith(_HARMLESS_SETTINGS)


def _has_option(options: Sequence[str], wanted: Collection[str]) -> bool:
    """Return whether one of some options is there: alone, with a value, abbreviated, or with other short
    ones."""
    wanted_letters = {option[1:] for option in wanted if len(option) == 2}
    return any(_is_wanted(option.partition("=")[0], wanted, wanted_letters) for option in options)


def _is_wanted(option: str, wanted: Collection[str], wanted_letters: Collection[str]) -> bool:
    """Return whether an option is one of those wanted.

    Args:
        option: The option without its value.
        wanted: The options.
        wanted_letters: The letters of the short ones among them.
    """
    if option in wanted:
        return True
    if option.startswith("--"):
        # Git takes the beginning of a long option for it.
        return option != "--" and any(long.startswith(option) for long in wanted)
    return any(letter in option[1:] for letter in wanted_letters)
