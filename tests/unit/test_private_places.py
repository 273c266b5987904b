"""Private places in the folders that read-only code may read."""

from __future__ import annotations

import os
import pwd
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from mahtab_tui.worker.guard import private_places
from mahtab_tui.worker.guard.private_file_guard import PrivateFileGuard
from mahtab_tui.worker.guard.private_places import is_env_file
from mahtab_tui.worker.guard.readable_paths import readable_paths

IN_PROJECT = ["project/.env.example", "project/data", "project/plain", "project/sub/x"]
OTHER_FORMS = (
    "{home}/.mahtab/x",
    "/{home}/.mahtab/x",
    "{home}/project/../.mahtab/x",
    "/proc/self/root{home}/.mahtab/x",
    "{home}/link/x",
    "{home}/to_file",
    "{home}/project/to_home/.mahtab/x",
    "{home}/copy/.ssh/x",
    "{home}/project/gh/../gh/hosts.yml",
    "gh/../gh/hosts.yml",
    "/proc/self/cwd/../.mahtab/x",
    "{home}/link/",
    "{home}/link/.",
    "{home}/.mahtab/missing/..",
)


@pytest.fixture
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path.resolve() / "users" / "me"
    for name in (".ssh", ".mahtab", ".hidden", ".config/chromium", "project/sub", "project/plain"):
        (folder / name).mkdir(parents=True)
    for name in (
        "notes.txt",
        "project/.env",
        "project/.env.example",
        "project/data",
        "project/sub/.env.local",
    ):
        (folder / name).touch()
    for link, target in (("keys", ".ssh"), ("shown", ".hidden"), ("alias", "notes.txt")):
        (folder / link).symlink_to(target)
    (folder / "project" / "keys").symlink_to("../.ssh")
    (folder / "project" / "sub" / "x").touch()
    monkeypatch.setenv("HOME", str(folder))
    return folder


def whole(user_folder: Path, project: Path) -> list[str]:
    readable = readable_paths(str(project)).whole
    return sorted(str(Path(path).relative_to(user_folder)) for path in set(readable))


def test_a_project_is_readable_without_its_files_of_the_environment(user_folder: Path) -> None:
    project = user_folder / "project"
    assert whole(user_folder, project) == IN_PROJECT
    assert readable_paths(str(project)).listed == [str(project)]
    assert whole(user_folder, project / "plain") == ["project/plain"]


def test_files_of_the_environment_are_found_in_any_depth_and_when_they_appear(
    user_folder: Path,
) -> None:
    plain = user_folder / "project" / "plain"
    (plain / "a" / "b" / "c").mkdir(parents=True)
    (plain / "a" / "b" / "data").touch()
    (plain / "other").mkdir()
    assert whole(user_folder, plain) == ["project/plain"]
    (plain / "a" / "b" / "c" / ".env").touch()
    (plain / "a" / "b" / "c" / "data").touch()
    assert whole(user_folder, plain) == [
        "project/plain/a/b/c/data",
        "project/plain/a/b/data",
        "project/plain/other",
    ]


@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_project_around_the_home_folder_shows_nothing_hidden(
    user_folder: Path, above: int
) -> None:
    project = [user_folder, *user_folder.parents][above]
    assert whole(user_folder, project) == ["notes.txt", *IN_PROJECT]


@pytest.mark.parametrize(
    "private_path", [".ssh", ".mahtab", ".config/chromium", "keys", "project/keys"]
)
def test_private_places_are_never_readable(user_folder: Path, private_path: str) -> None:
    assert whole(user_folder, user_folder / private_path) == []


def test_places_with_keys_are_private_in_any_folder(user_folder: Path) -> None:
    plain = user_folder / "project" / "plain"
    (plain / "backup" / ".ssh").mkdir(parents=True)
    for name in ("backup/.ssh/id", "backup/data", "backup/.netrc", "seen"):
        (plain / name).touch()
    assert whole(user_folder, plain) == ["project/plain/backup/data", "project/plain/seen"]
    assert whole(user_folder, plain / "backup" / ".ssh") == []
    (plain / "id").symlink_to("backup/.ssh/id")
    assert whole(user_folder, plain / "id") == []


def test_home_folders_of_all_users_have_private_places(
    user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with ``sudo -H``, HOME leads elsewhere."""
    monkeypatch.setenv("HOME", str(user_folder.parent / "elsewhere"))
    user = list(pwd.getpwuid(os.getuid()))
    user[5] = str(user_folder)
    # Changing the system's users needs its rights.
    monkeypatch.setattr(pwd, "getpwall", lambda: [pwd.struct_passwd(user)])
    private_places.home_folders.cache_clear()
    try:
        assert whole(user_folder, user_folder) == ["notes.txt", *IN_PROJECT]
        for name in (".mahtab", ".config/chromium", "keys"):
            assert whole(user_folder, user_folder / name) == []
    finally:
        private_places.home_folders.cache_clear()


def test_only_home_folders_around_or_in_what_is_read_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path.resolve() / "users"
    for name in ("me", "other/project", "elsewhere"):
        (users / name).mkdir(parents=True)
    (users / "linked").symlink_to("elsewhere")
    homes = [users / name for name in ("other", "linked")]
    for home in homes:
        (home / ".docker").mkdir()
    monkeypatch.setenv("HOME", str(users / "me"))
    user = list(pwd.getpwuid(os.getuid()))
    accounts = [pwd.struct_passwd([*user[:5], str(home), *user[6:]]) for home in homes]
    monkeypatch.setattr(pwd, "getpwall", lambda: accounts)
    private_places.home_folders.cache_clear()
    try:
        for paths, places in {
            ("me",): [],
            ("other/project", "me"): ["other/.docker"],
            ("elsewhere/project",): ["elsewhere/.docker"],
            (".",): ["other/.docker", "linked/.docker", "elsewhere/.docker"],
        }.items():
            other_places = private_places.private_in_homes(
                [str((users / path).resolve()) for path in paths]
            )
            in_users = [place for place in other_places if f"{users}/me/" not in place]
            assert {*in_users} >= {str(users / place) for place in places}
            assert len([place for place in in_users if str(users) in place]) == len(places)
        guarded_os = SimpleNamespace(**vars(os))
        PrivateFileGuard(str, ()).install(guarded_os)
        with pytest.raises(PermissionError):
            guarded_os.stat(users / "other" / ".docker" / "x")
    finally:
        private_places.home_folders.cache_clear()


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_private_files_are_not_described_by_any_form_of_their_paths(
    user_folder: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    (user_folder / ".config" / "nvim").mkdir()
    (user_folder / "project" / "gh").symlink_to("../.config/nvim")
    (user_folder / "link").symlink_to(".mahtab")
    (user_folder / "to_file").symlink_to(".mahtab/x")
    (user_folder / "project" / "to_home").symlink_to("..")
    refused_paths: list[str] = []
    guarded_os = SimpleNamespace(**vars(os))
    places = readable_paths(str(user_folder / "project")).private
    PrivateFileGuard(refused_paths.append, places).install(guarded_os)
    monkeypatch.chdir(user_folder / "project")
    path = form.format(home=user_folder)
    with pytest.raises(PermissionError, match="private"):
        guarded_os.stat(path)
    assert refused_paths == [path]
    assert guarded_os.stat(user_folder / "project" / "data").st_size == 0
    assert guarded_os.lstat(user_folder / "alias").st_size == len("notes.txt")


def test_a_private_working_folder_is_not_described(
    user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded_os = SimpleNamespace(**vars(os))
    places = readable_paths(str(user_folder / "project")).private
    PrivateFileGuard(str, places).install(guarded_os)
    forms = ("data", "./data", "/proc/self/cwd/data", "/dev/../proc/self/cwd/data")
    for folder, is_private in (("project", False), (".mahtab", True), ("project", False)):
        monkeypatch.chdir(user_folder / folder)
        for path in forms:
            with pytest.raises(PermissionError) if is_private else nullcontext():
                guarded_os.stat(path)


def test_a_named_hidden_folder_is_readable(user_folder: Path) -> None:
    assert whole(user_folder, user_folder / ".hidden") == [".hidden"]


def test_private_names_are_known_whatever_their_case(user_folder: Path) -> None:
    project = user_folder / "project"
    (project / ".SSH").mkdir()
    (project / ".Env.local").touch()
    assert whole(user_folder, project) == IN_PROJECT


def test_the_root_folder_as_project_shows_no_system_state(user_folder: Path) -> None:
    readable = readable_paths("/").whole
    assert "/usr" in readable
    assert not [path for path in readable if path.startswith(("/proc", "/dev", "/root", "/run"))]


@pytest.mark.parametrize(
    ("name", "is_env"),
    [
        ("a/.env", True),
        (".env.local", True),
        (".ENV", True),
        (".env.example", False),
        ("x.env", False),
    ],
)
def test_files_of_the_environment_are_known_by_name(name: str, *, is_env: bool) -> None:
    assert is_env_file(name) is is_env
