"""Skills: where they are found, which are trusted, and the errors of broken ones."""

from __future__ import annotations

import os
import shutil
import string
import tempfile
import threading
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.knowledge.library import SkillLibrary, SkillNotFound
from mahtab_tui.knowledge.skill_file import Skill, name_problem, read_skill, skill_files
from mahtab_tui.knowledge.skills_loader import ProjectFolder, SkillsLoader, skill_folders
from mahtab_tui.settings.model import resource_folder
from tests.skills import trust_skills, write_skill

BUNDLED = {"debug", "refactor", "explore-data", "rlm-strategies", "repl-tools", "write-tests"}

SKILL_FOLDERS = (".mahtab/skills", ".claude/skills", "skills")

BROKEN = {
    "no-frontmatter": ("Words only.", "does not begin with frontmatter"),
    "no-end": ("---\nname: no-end\ndescription: x\n", "does not begin with frontmatter"),
    "other": ("name: a\ndescription: x", "the name is 'a', but the folder is 'other'"),
    "no-name": ("description: x", "the name '' cannot be used"),
    "no-description": ("name: no-description", "1 to 1,024 characters, not 0"),
    "no-yaml": ("name: no-yaml\ndescription: [", "line 3: the frontmatter is not valid YAML"),
    "no-keys": ("words", "must be lines of the form key: value"),
    "listed": ("name: listed\ndescription: [a]", "description must be text"),
    "long": (f"name: long\ndescription: {'x' * 1025}", "not 1,025"),
    "two--hyphens": ("name: two--hyphens\ndescription: x", "single hyphens"),
    "Capital": ("name: Capital\ndescription: x", "a-z, 0-9"),
    "x" * 65: (f"name: {'x' * 65}\ndescription: x", "at most 64"),
}
"""Text or frontmatter of each broken skill, and its error."""


def load(*folders: Path | ProjectFolder) -> tuple[dict[str, Skill], list[str]]:
    loader = SkillsLoader(*folders)
    return {skill.name: skill for skill in loader.load_all()}, list(loader.problems)


def load_project(project: Path) -> tuple[dict[str, Skill], list[str]]:
    return load(*skill_folders(project))


def test_the_bundled_skills_load(project: Path) -> None:
    skills, problems = load_project(project)
    assert skills.keys() == BUNDLED
    assert not problems


def test_later_skill_folder_overrides_earlier_ones(project: Path, home: Path) -> None:
    named = project / "named", project / "named-last"
    skill_dirs = (project / ".mahtab/skills", project / ".claude/skills", home / ".mahtab/skills")
    for skill_dir in (*skill_dirs, *named):
        write_skill(skill_dir, "debug", content=f"Of {skill_dir}.")
        trust_skills(project)
        folders = skill_folders(project, [folder for folder in named if folder.is_dir()])
        assert load(*folders)[0]["debug"].content == f"Of {skill_dir}."


def test_projects_skills_folder_is_the_default(project: Path) -> None:
    write_skill(project / "skills", "ours")
    trust_skills(project)
    assert "ours" in load_project(project)[0]
    assert "ours" not in load(*skill_folders(project, [project / "others"]))[0]


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.mark.parametrize("folder", SKILL_FOLDERS)
@pytest.mark.parametrize("name", ["folder", "whole/SKILL.md"])
def test_project_skill_linked_outside_the_project_is_refused_with_details(
    project: Path, elsewhere: Path, folder: str, name: str
) -> None:
    secret = write_skill(elsewhere, name.split("/")[0], content="A private word.")
    link = project / folder / name
    link.parent.mkdir(parents=True)
    link.symlink_to(secret.parent if name == "folder" else secret)
    skills, [problem] = load_project(project)
    assert skills.keys() == BUNDLED
    assert str(link) in problem
    assert f"a link leads out of the project, to {secret}" in problem


@pytest.mark.parametrize("folder", SKILL_FOLDERS)
def test_project_skill_folder_linked_outside_the_project_is_refused(
    project: Path, elsewhere: Path, folder: str
) -> None:
    (elsewhere / "note.md").write_text("A private word.")
    (project / folder).parent.mkdir(exist_ok=True)
    (project / folder).symlink_to(elsewhere)
    skills, [problem] = load_project(project)
    assert skills.keys() == BUNDLED
    reason = f"is a link out of the project, to {elsewhere}, so it is not read"
    assert problem == f"{project / folder}: this folder of skills {reason}."


@pytest.mark.parametrize("folder", SKILL_FOLDERS)
def test_links_within_the_project_are_followed(project: Path, folder: str) -> None:
    ours = write_skill(project / "docs", "ours", content="Ours.")
    (project / folder).mkdir(parents=True)
    (project / folder / "ours").symlink_to(ours.parent)
    trust_skills(project)
    skills, problems = load_project(project)
    assert not problems
    assert skills["ours"].folder == ours.parent


def test_users_own_skill_folders_may_link_anywhere(
    project: Path, home: Path, elsewhere: Path
) -> None:
    user_skills = home / ".mahtab" / "skills"
    user_skills.mkdir(parents=True)
    (user_skills / "mine").symlink_to(write_skill(elsewhere, "mine", content="Mine.").parent)
    (project / ".mahtab").mkdir()
    (project / ".mahtab" / "skills").symlink_to(user_skills)
    skills, problems = load_project(project)
    assert not problems
    assert skills["mine"].content == "Mine."


def test_files_of_a_skill_are_read_only_inside_its_folder(project: Path) -> None:
    folder = write_skill(project / ".mahtab" / "skills", "ours").parent
    (project / "secret").write_text("A private word.")
    (folder / "out").symlink_to("../../../secret")
    (folder / "more.md").write_text("More.")
    trust_skills(project)
    library = SkillLibrary(SkillsLoader(*skill_folders(project)), pytest.fail)
    assert library.file("ours", "more.md") == "More."
    for path in ("out", "../../../secret", str(project / "secret")):
        with pytest.raises(SkillNotFound, match=r"refused|outside"):
            library.file("ours", path)


def test_project_skills_reach_no_model_until_their_texts_are_trusted(project: Path) -> None:
    folder = write_skill(project / ".claude" / "skills", "ours", content="Ours.").parent
    (folder / "more.md").write_text("More.")
    notices: list[str] = []
    library = SkillLibrary(SkillsLoader(*skill_folders(project)), notices.append)
    assert "ours" not in library.skills()
    assert [(skill.name, len(notices)) for skill in library.untrusted] == [("ours", 1)]
    assert "ours. No model gets them until you trust them" in notices[0]
    with pytest.raises(SkillNotFound, match="has not trusted it"):
        library.get("ours")
    trust_skills(project)
    library.invalidate()
    assert library.instructions("ours").startswith("Ours.")
    assert library.file("ours", "./more.md") == "More."
    (folder / "more.md").write_text("Another text.")
    (folder / "new.md").write_text("A new file.")
    for name in ("more.md", "new.md"):
        with pytest.raises(SkillNotFound, match="has not trusted it"):
            library.file("ours", name)
    write_skill(project / ".claude" / "skills", "ours", content="Another text.")
    library.invalidate()
    assert "ours" not in library.skills()


def test_a_project_with_a_copy_of_the_bundled_skills_asks_for_no_trust(project: Path) -> None:
    shutil.copytree(resource_folder("skills"), project / "skills")
    loader = SkillsLoader(*skill_folders(project))
    bundled_folder = resource_folder("skills")
    assert all(skill.file.is_relative_to(bundled_folder) for skill in loader.load_all())
    assert loader.warnings == ()

    write_skill(project / "skills", "debug", content="Another text.")
    loader.load_all()
    assert [skill.name for skill in loader.untrusted] == ["debug"]


def test_users_skill_overrides_a_projects_of_the_same_name_with_a_report(
    project: Path, home: Path
) -> None:
    mine = write_skill(home / ".mahtab" / "skills", "tidy", content="Mine.")
    theirs = write_skill(project / "skills", "tidy", content="Theirs.")
    trust_skills(project)
    skills, problems = load_project(project)
    assert skills["tidy"].content == "Mine."
    assert problems == [f"{theirs}: not used, because {mine} has the same name."]


def test_the_users_home_as_a_project_needs_no_trust(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    write_skill(home / ".claude" / "skills", "mine")
    assert "mine" in load_project(home)[0]


def test_overridden_skill_returns_when_the_winner_is_broken(project: Path) -> None:
    write_skill(project / ".mahtab" / "skills", "debug", text="broken")
    skills, problems = load_project(project)
    assert skills["debug"].file.is_relative_to(resource_folder("skills"))
    assert len(problems) == 1


@pytest.mark.parametrize("name", BROKEN)
def test_broken_skill_is_named_with_its_file_and_the_others_load(name: str, tmp_path: Path) -> None:
    text, message = BROKEN[name]
    if name not in ("no-frontmatter", "no-end"):
        text = f"---\n{text}\n---\n"
    path = write_skill(tmp_path, name, text=text)
    write_skill(tmp_path, "good")
    skills, [problem] = load(tmp_path)
    assert skills.keys() == {"good"}
    assert problem.startswith(str(path))
    assert message in problem


def test_unreadable_skill_file_is_reported(tmp_path: Path) -> None:
    files = [tmp_path / name / "SKILL.md" for name in ("binary", "folder", "gone", "pipe")]
    for file in files:
        file.parent.mkdir()
    files[0].write_bytes(b"---\nname: \xff")
    files[1].mkdir()
    files[2].symlink_to(tmp_path / "nowhere")
    os.mkfifo(files[3])
    skills, problems = load(tmp_path)
    assert not skills
    assert [problem.split(": ", 1)[1] for problem in problems] == [
        "the file does not begin with frontmatter between two lines of ---.",
        "SKILL.md is a folder.",
        "File not found: nowhere",
        "SKILL.md is a pipe, not a file.",
    ]


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 900_000,
        "[" * 30 + "]" * 30,
        "- " * 30 + "x",
        "? " * 900,
        "\n" + "".join(" " * n + "a:\n" for n in range(1, 900)),
    ],
    ids=["open", "flow", "list", "keys", "map"],
)
def test_unterminated_frontmatter_gives_one_sentence(tmp_path: Path, text: str) -> None:
    write_skill(tmp_path, "deep", text=f"---\nname: deep\ndescription: x\nmetadata: {text}\n---\n")
    write_skill(tmp_path, "good")
    skills, [problem] = load(tmp_path)
    assert skills.keys() == {"good"}
    assert "nested more than 20 deep" in problem or "not valid YAML" in problem


def test_a_description_is_one_line(tmp_path: Path) -> None:
    text = "---\nname: lines\ndescription: |\n  one\n  - debug: two\n---\n"
    write_skill(tmp_path, "lines", text=text)
    assert load(tmp_path)[0]["lines"].description == "one - debug: two"


def test_single_file_is_a_skill_too(tmp_path: Path) -> None:
    (tmp_path / "sql-style.md").write_text("# SQL style\n\nKeywords in\ncapitals.\n\nMore.\n")
    (tmp_path / "described.md").write_text("---\ndescription: By the frontmatter.\n---\nWords.\n")
    (tmp_path / "titled.md").write_text("# Only a title\n")
    (tmp_path / "README.md").write_text("About these skills.")
    (tmp_path / "loop.md").symlink_to("loop.md")
    skills, problems = load(tmp_path)
    assert len(problems) == 1
    assert {name: skill.description for name, skill in skills.items()} == {
        "sql-style": "Keywords in capitals.",
        "described": "By the frontmatter.",
        "titled": "Only a title",
    }
    assert skills["sql-style"].folder is None


@pytest.mark.parametrize("chain", [False, True])
def test_file_linked_outside_the_project_is_refused(
    project: Path, elsewhere: Path, chain: bool
) -> None:
    (elsewhere / "id").write_text("A private word.")
    (project / "skills").mkdir()
    (project / "link").symlink_to(elsewhere / "id")
    link = project / "skills" / "file.md"
    link.symlink_to(project / "link" if chain else elsewhere / "id")
    skills, [problem] = load_project(project)
    assert skills.keys() == BUNDLED
    assert f"{link}: not read, because a link leads out of the project" in problem


def test_folder_named_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noting(path: Path, project: Path | None) -> Skill:
        read.append(path.parent.name)
        return read_skill(path, project)

    monkeypatch.setattr("mahtab_tui.knowledge.skills_loader.read_skill", noting)
    write_skill(tmp_path / "skills", "good")
    write_skill(tmp_path / "skills", "broken", text="x")
    (tmp_path / "link").symlink_to("skills")
    loader = SkillsLoader(tmp_path / "skills", tmp_path / "link")
    loader.load_all()
    assert len(loader.problems) == 1
    assert read == ["broken", "good"]


def test_known_fields_are_read(tmp_path: Path) -> None:
    text = "\ufeff---\r\nname: full\r\ndescription: >\r\n  Two\r\n  lines.\r\nlicense: MIT\r\nmetadata: {a: [b]}\r\n---\r\nDo.\r\n"
    path = write_skill(tmp_path, "full", text=text)
    skill = load(tmp_path)[0]["full"]
    assert skill == Skill("full", "Two lines.", tmp_path / "full", "Do.", path)


def test_changed_files_are_reread_and_a_problem_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.knowledge.library.RELOAD_INTERVAL_S", -1)
    notices: list[str] = []
    library = SkillLibrary(SkillsLoader(tmp_path), notices.append)
    assert library.skills() == {}
    path = write_skill(tmp_path, "one", content="Before.")
    assert library.instructions("one", "the desk") == "Before.\n\nArguments: the desk"
    write_skill(tmp_path, "one", content="After, and longer.")
    assert library.instructions("one") == "After, and longer."
    path.unlink()
    with pytest.raises(SkillNotFound, match="There is no skill 'one'"):
        library.get("one")
    write_skill(tmp_path, "two", text="broken")
    for _ in range(3):
        library.skills()
    assert len(notices) == 1


def test_skill_files_are_named_if_their_names_fit_on_a_line(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "one").parent
    for name in (b"more.md", b"bytes\xff.md", b"line\n.md", b".hidden"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).touch()
    assert skill_files(SkillLibrary(SkillsLoader(tmp_path), pytest.fail).get("one")) == ["more.md"]


# Any file is a skill by the specification, or gives a sentence that names it.

names = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,5}", fullmatch=True)
words = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\ufeff"),
    min_size=1,
    max_size=200,
).filter(lambda text: text.strip())
lines = "---|name: a|description: b|metadata:|  x: y|  - z|a: *b|&c|!!int x|? {|#|".split("|")
fences = st.lists(st.sampled_from(lines), max_size=12)


@given(names, words, words, st.dictionaries(words, words, max_size=3))
def test_skill_written_to_the_specification_round_trips(
    name: str, description: str, content: str, metadata: dict[str, str]
) -> None:
    fields = {"name": name, "description": description, "metadata": metadata}
    frontmatter = yaml.safe_dump(fields, allow_unicode=True)
    with tempfile.TemporaryDirectory() as directory:
        path = write_skill(Path(directory), name, text=f"---\n{frontmatter}---\n{content}")
        skill = read_skill(path)
    read = skill.name, skill.description, skill.content
    assert read == (name, description.strip(), content.strip())


@given(fences.map("\n".join) | st.text(max_size=300) | st.binary(max_size=300))
def test_any_file_gives_a_skill_or_a_sentence_with_its_path(text: str | bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "a", "SKILL.md")
        path.parent.mkdir()
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        loader = SkillsLoader(directory)
        skills = loader.load_all()
    if skills:
        assert skills[0].name == "a"
        assert 1 <= len(skills[0].description) <= 1024
    else:
        [problem] = loader.problems
        assert problem.startswith(str(path))
        assert problem.endswith(".")


@given(
    st.text("a0-", max_size=80)
    | st.text(string.ascii_letters + string.digits + "-_. é", max_size=80)
)
def test_names_are_refused_exactly_where_the_specification_refuses_them(name: str) -> None:
    allowed = set(string.ascii_lowercase + string.digits + "-")
    hyphens = "--" in name or name.startswith("-") or name.endswith("-")
    valid = 1 <= len(name) <= 64 and set(name) <= allowed and not hyphens
    assert (not name_problem(name)) is valid


def test_pipe_replacing_a_file_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipe").mkdir()
    os.mkfifo(path := tmp_path / "pipe" / "SKILL.md")
    monkeypatch.setattr("pathlib.Path.is_file", lambda path: True)
    waits = threading.Event()

    def end_the_wait() -> None:
        waits.set()
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))

    watch = threading.Timer(20, end_the_wait)
    watch.start()
    try:
        assert len(load(tmp_path)[1]) == 1
    finally:
        watch.cancel()
    assert not waits.is_set()
