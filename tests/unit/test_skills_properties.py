"""Laws of the loader: whatever stands in a file, it is a skill by the specification or a sentence
that names the file."""

from __future__ import annotations

import string
import tempfile
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.knowledge.skills import SkillsLoader, name_problem, read_skill
from tests.skills import write_skill

names = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,5}", fullmatch=True)
words = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\ufeff"),
    min_size=1,
    max_size=200,
).filter(lambda text: text.strip())
fences = st.lists(
    st.sampled_from(
        [
            "---",
            "name: a",
            "description: b",
            "metadata:",
            "  x: y",
            "  - z",
            "a: *b",
            "&c",
            "!!int x",
            "? {",
            "#",
            "",
        ]
    ),
    max_size=12,
)


@given(names, words, words, st.dictionaries(words, words, max_size=3))
def test_skill_written_to_the_specification_round_trips(
    name: str, description: str, content: str, metadata: dict[str, str]
) -> None:
    frontmatter = yaml.safe_dump(
        {"name": name, "description": description, "metadata": metadata}, allow_unicode=True
    )
    with tempfile.TemporaryDirectory() as directory:
        path = write_skill(Path(directory), name, text=f"---\n{frontmatter}---\n{content}")
        skill = read_skill(path)
    assert (skill.name, skill.description, skill.content) == (
        name,
        description.strip(),
        content.strip(),
    )
    assert dict(skill.metadata) == metadata


@given(fences.map("\n".join) | st.text(max_size=300) | st.binary(max_size=300))
def test_any_file_gives_a_skill_or_a_sentence_with_its_path(
    text: str | bytes,
) -> None:
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
    by_the_words = (
        1 <= len(name) <= 64
        and set(name) <= allowed
        and "--" not in name
        and name[0] != "-"
        and name[-1] != "-"
    )
    assert (not name_problem(name)) is by_the_words


@given(st.lists(st.sets(st.sampled_from(["a", "b", "c", "d"]), min_size=1), min_size=1, max_size=4))
def test_last_folder_with_a_name_provides_the_skill(skill_names: list[set[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, here in enumerate(skill_names):
            for name in here:
                write_skill(Path(folder, str(number)), name, content=str(number))
        found = {
            skill.name: skill.content
            for skill in SkillsLoader(
                *(Path(folder, str(n)) for n in range(len(skill_names)))
            ).load_all()
        }
    assert found == {name: str(number) for number, here in enumerate(skill_names) for name in here}
