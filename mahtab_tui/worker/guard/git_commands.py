"""Tells which commands of Git write settings of the repository, or start other programs."""

from __future__ import annotations

from collections.abc import Sequence
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
"""Those that, as such, neither write settings nor start programs that their arguments name."""
_READING_FORMS = {
    "remote": frozenset(("", "show", "get-url", "update", "prune")),
    "submodule": frozenset(("", "status", "summary")),
    "worktree": frozenset(("list",)),
    "bisect": frozenset("start good bad new old skip reset log terms view visualize help".split()),
}
"""Of subcommands that write settings or start programs: the words after them with which they do
neither."""
_READING_CONFIG_FORMS = frozenset(("get", "list", "get-all"))
_READING_CONFIG_OPTIONS = frozenset(
    ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l")
)
_WRITING_CONFIG_OPTIONS = frozenset(
    (
        *("--unset", "--unset-all", "--remove-section", "--rename-section", "--edit", "-e"),
        *("--add", "--replace-all"),
    )
)
_WRITING_OPTIONS = {
    "branch": (
        *("-u", "--set-upstream-to", "--unset-upstream", "--edit-description", "-t", "--track"),
        *("-m", "-M", "--move", "-c", "-C", "--copy", "-d", "-D", "--delete"),
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
_HARMLESS_SETTINGS = (
    *("user.", "author.", "committer.", "color.", "advice.", "commit.gpgsign", "core.quotepath"),
    *("core.autocrlf", "core.safecrlf", "init.defaultbranch", "log.", "http.", "protocol."),
    *("safe.directory", "gc.auto", "diff.renames", "diff.algorithm", "fetch.", "column."),
)
"""Beginnings of settings that name no program."""


class _GitCall(NamedTuple):
    """The arguments of a call of Git."""

    settings: Sequence[str]
    """Those of `-c`, as ``name=value``."""
    has_unusual_option: bool
    """Whether another option before the subcommand may name a program."""
    subcommand: str
    operands: Sequence[str]
    """Those after the subcommand."""
    options: Sequence[str]
    """Those after the subcommand."""


def _read_call(arguments: Sequence[Word]) -> _GitCall:
    texts = [word.text for word in arguments if not word.redirection]
    settings: list[str] = []
    has_unusual_option = False
    index = 0
    while index < len(texts) and texts[index].startswith("-"):
        option = texts[index]
        has_unusual_option |= option.startswith(("--exec-path", "--config-env"))
        index += 1
        if option in _OPTIONS_WITH_VALUE:
            settings += texts[index : index + 1] if option == "-c" else []
            index += 1
        elif option.startswith("-c"):
            settings.append(option[2:])
    rest = texts[index + 1 :]
    return _GitCall(
        settings,
        has_unusual_option,
        "".join(texts[index : index + 1]),
        [text for text in rest if not text.startswith("-")],
        [text for text in rest if text.startswith("-")],
    )


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
        # Git notes from which branch of a remote a new branch has come.
        return len(call.operands) > 1
    return _has_option(call.options, _WRITING_OPTIONS.get(call.subcommand, ()))


def _changes_config(call: _GitCall) -> bool:
    if not _WRITING_CONFIG_OPTIONS.isdisjoint(call.options):
        return True
    is_reading = not _READING_CONFIG_OPTIONS.isdisjoint(call.options)
    if is_reading or call.operands[:1] == ["edit"]:
        return not is_reading
    # A name is read, a name with a value is written.
    return len(call.operands) > 1 and call.operands[0] not in _READING_CONFIG_FORMS


def _makes_branch(call: _GitCall) -> bool:
    return _has_option(call.options, ("-b", "-B", "-c", "-C", "--create", "--force-create"))


def starts_programs(arguments: Sequence[Word]) -> bool:
    """Return whether Git may start a program with these arguments that they or its settings name, or
    does what is not known."""
    call = _read_call(arguments)
    if call.has_unusual_option or not all(map(_is_harmless_setting, call.settings)):
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


def _has_option(options: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether one of some options is there: alone, with a value, or short ones together."""
    for option in options:
        name = option.partition("=")[0]
        if name in wanted:
            return True
        is_abbreviated = name.startswith("--") and len(name) > 4
        if is_abbreviated and any(long.startswith(name) for long in wanted):
            return True
        if not name.startswith("--") and any(
            letter in name[1:] for letter in (short[1:] for short in wanted if len(short) == 2)
        ):
            return True
    return False
