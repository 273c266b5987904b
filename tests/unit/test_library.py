"""The library of skills: its index, and skills that stay loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mahtab_tui.bus.logger import close_logging, setup_logging
from mahtab_tui.knowledge import library as library_module
from mahtab_tui.knowledge.library import SkillLibrary, SkillNotFound
from mahtab_tui.knowledge.loaded_skills import LoadedSkills, SkillsBudgetExceeded
from mahtab_tui.knowledge.skill_file import Skill
from mahtab_tui.knowledge.skills_index import MAX_INDEXED_CHARS, SkillsIndex
from mahtab_tui.knowledge.skills_loader import SkillsLoader
from tests import tags
from tests.records import RecordList
from tests.skills import write_skill

# The index of skills.

TOPICS = {
    "invoices": "billing amounts, due dates and dunning letters",
    "claims": "insured events, reserves and payouts",
    "payroll": "salaries, wage tax and monthly slips",
    "ledger": "postings, accounts and the yearly balance",
    "warehouse": "stock levels, pallets and picking routes",
    "shipping": "parcels, carriers and tracking numbers",
    "catalogue": "articles, prices and categories",
    "customers": "addresses, contacts and consent",
    "contracts": "clauses, terms and signatures",
    "forecast": "time series, seasons and trends",
    "telemetry": "sensors, gauges and alarms",
    "backup": "snapshots, retention and restore drills",
}
TASKS = {
    "import": "Reads files that come in, and refuses what is malformed",
    "export": "Writes files for partners in their layout",
    "reconcile": "Compares two sources row by row and explains differences",
    "anonymise": "Replaces what identifies a person",
    "migrate": "Moves old records into the new schema",
    "audit": "Finds who changed something and when",
    "visualise": "Draws charts for a meeting",
    "archive": "Packs what is past its time",
    "simulate": "Plays through scenarios with invented numbers",
}
PROGRAMS = {
    f"{task}-{topic}": f"CB{topic[:3].upper()}{task[:2].upper()}{number}C"
    for number, (task, topic) in enumerate((task, topic) for topic in TOPICS for task in TASKS)
}


def make_skill(name: str, description: str = "Something.", content: str = "") -> Skill:
    return Skill(name, description, Path(), content, Path(f"{name}.md"))


GENERATED = [
    make_skill(
        f"{task}-{topic}",
        f"{does}: {about}.",
        f"Call {PROGRAMS[f'{task}-{topic}']} or {task}_{topic}_file() first. See the notes on {other}.",
    )
    for number, (topic, about) in enumerate(TOPICS.items())
    for other in [list(TOPICS)[(number + 1) % len(TOPICS)]]
    for task, does in TASKS.items()
]


@pytest.fixture(scope="module")
def index() -> SkillsIndex:
    return SkillsIndex(GENERATED)


@pytest.mark.parametrize("skill", GENERATED, ids=lambda skill: skill.name)
def test_skill_ranks_first_for_its_own_topic(index: SkillsIndex, skill: Skill) -> None:
    task, topic = skill.name.split("-")
    program = PROGRAMS[skill.name]
    about = TOPICS[topic].replace(",", "").split()[0]
    queries = [
        skill.name,
        f"How do I {task} the {topic}?",
        f"{task[:-1] if task.endswith('e') else task}ing {topic}",
        f"{topic} {task}",
        f"{TASKS[task].split()[0]} {TASKS[task].split()[-1]} {about}",
        program,
        program.lower(),
        program[1:-1],
        f"{task}_{topic}_file",
        f"{task[1:]}_{topic}_fi",
    ]
    assert {query: [hit.name for hit in index.search(query, 1)] for query in queries} == {
        query: [skill.name] for query in queries
    }


def test_name_outweighs_description_and_description_outweighs_content() -> None:
    # Where the word weighs less it occurs more often, or among fewer words: other weights would
    # give another order.
    other_description = "Something else entirely"
    content = "More of it. " * 3
    index = SkillsIndex(
        [
            make_skill("a-nothing", f"{other_description}.", "parquet " * 2),
            make_skill("b-nothing", "About parquet, and so on.", content),
            make_skill("c-parquet", f"{other_description}, and so on.", content),
        ]
    )
    assert [hit.name for hit in index.search("parquet")] == ["c-parquet", "b-nothing", "a-nothing"]


def test_best_skill_is_found_among_many_partial_matches() -> None:
    words = ["alpha", "beta", "gamma"]
    partial_matches = [
        make_skill(f"s{number:04}", content=words[number % 3]) for number in range(1_200)
    ]
    best = make_skill("z", content=" ".join(words))
    assert SkillsIndex([*partial_matches, best]).search("alpha beta gamma", 1)[0].name == "z"
    often = [skill._replace(content="alpha beta") for skill in partial_matches]
    index = SkillsIndex([*often, best._replace(name="z-alpha-beta")])
    assert index.search("alpha beta", 1)[0].name == "z-alpha-beta"


def test_one_long_word_takes_no_longer_than_many() -> None:
    skills = [
        make_skill(f"long-{number:02}", content="a" * MAX_INDEXED_CHARS) for number in range(50)
    ]
    assert SkillsIndex(skills).search("long", 1)[0].name == "long-00"


def test_exact_name_ranks_first() -> None:
    other_skill = make_skill("z-test", "Test, test, test.", "Test test test.")
    skills = [other_skill, make_skill("test", "Words and words and words.")]
    assert SkillsIndex(skills).search(" Test ")[0].name == "test"


def test_ties_are_always_sorted_by_name() -> None:
    skills = [make_skill(name, "The same words.") for name in "dbca"]
    for order in (skills, skills[::-1]):
        assert [hit.name for hit in SkillsIndex(order).search("same words", 3)] == ["a", "b", "c"]


def test_get_gives_the_whole_skill(index: SkillsIndex) -> None:
    (skill,) = [skill for skill in GENERATED if skill.name == "import-claims"]
    assert index.get("import-claims") == skill
    assert index.get("nothing") is None


def test_signs_of_a_query_language_are_no_error(index: SkillsIndex) -> None:
    signs = ['"', "'", "*", "^", "-", "(", "\0", "", "   ", "😀", "x" * 10_000, "ß İ ﬀ"]
    for query in (*signs, "a AND", "NEAR(", "name:x", "a OR b NOT", "{name} : x"):
        index.search(query)


@given(st.text(max_size=40), st.integers(-1, 7))
def test_any_text_is_a_query_and_the_limit_is_respected(query: str, limit: int) -> None:
    hits = SkillsIndex(GENERATED[:10]).search(query, limit)
    assert len(hits) <= max(0, limit)
    exact = query.strip().lower()
    assert sorted(hits, key=lambda hit: (hit.name != exact, -hit.score, hit.name)) == hits


def test_library_searches_the_current_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mahtab_tui.knowledge.library.RELOAD_INTERVAL_S", -1)
    library = SkillLibrary(SkillsLoader(tmp_path), pytest.fail)
    assert library.search("tidy") == []
    write_skill(tmp_path, "tidy-up", "Puts things away")
    assert [hit.name for hit in library.search("tidying")] == ["tidy-up"]
    assert library.index() is library.index()


# Skills that stay loaded.


class Shelf(RecordList):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        write_skill(folder, "tidy", content="Put things away.")
        write_skill(folder, "wash", content="Use warm water.")
        self.log = setup_logging()
        self.log.addHandler(self)
        self.library = SkillLibrary(SkillsLoader(folder), pytest.fail)
        self.loaded = LoadedSkills(lambda: self.library, 1_000, self.log)

    def skill_records(self) -> list[tuple[str, bool, int]]:
        return [
            (record.attrs["name"], record.attrs["loaded"], record.attrs["chars"])
            for record in self.records
            if record.tag == tags.SKILL
        ]

    def notices(self) -> list[str]:
        return [record.text for record in self.records if record.tag == tags.NOTICE]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    monkeypatch.setattr(library_module, "RELOAD_INTERVAL_S", -1.0)  # files are checked each time
    shelf = Shelf(tmp_path)
    yield shelf
    close_logging(shelf.log)


def test_loaded_skills_are_announced_and_sent_to_the_model(shelf: Shelf) -> None:
    shelf.loaded.load("wash")
    shelf.loaded.load("tidy")
    shelf.loaded.load("wash")
    assert shelf.loaded.names == ["wash", "tidy"]
    assert shelf.loaded.instructions() == {"wash": "Use warm water.", "tidy": "Put things away."}
    assert shelf.skill_records() == [("wash", True, 15), ("tidy", True, 16)]


def test_unloaded_skills_are_no_longer_sent(shelf: Shelf) -> None:
    shelf.loaded.load("tidy")
    shelf.loaded.unload("tidy")
    assert (shelf.loaded.names, shelf.loaded.instructions()) == ([], {})
    assert shelf.skill_records()[-1] == ("tidy", False, 16)
    with pytest.raises(SkillNotFound, match=r"The skill 'tidy' is not loaded\. Loaded: none\."):
        shelf.loaded.unload("tidy")


def test_unknown_skill_is_not_loaded(shelf: Shelf) -> None:
    with pytest.raises(SkillNotFound, match="There is no skill 'iron'"):
        shelf.loaded.load("iron")
    assert shelf.skill_records() == []


def test_skill_over_the_budget_is_refused_with_the_sizes(shelf: Shelf) -> None:
    write_skill(shelf.folder, "long", content="x" * 990)
    shelf.loaded.load("tidy")
    refused = "has 990 characters, but only 984 of the 1,000 for loaded skills are left"
    with pytest.raises(
        SkillsBudgetExceeded, match=rf"The skill long {refused}\. Loaded: tidy \(16\)\."
    ):
        shelf.loaded.load("long")
    assert shelf.loaded.names == ["tidy"]


def test_budget_can_be_used_up_and_a_growing_skill_reuses_its_own_share(shelf: Shelf) -> None:
    shelf.loaded = LoadedSkills(lambda: shelf.library, 40, shelf.log)
    shelf.loaded.load("tidy")
    shelf.loaded.load("wash")
    write_skill(shelf.folder, "tidy", content="x" * 25)
    assert shelf.loaded.instructions() == {"tidy": "x" * 25, "wash": "Use warm water."}
    assert shelf.loaded.used == (40, 40)


def test_resumed_session_reloads_its_skills(shelf: Shelf) -> None:
    shelf.loaded.load("tidy")
    shelf.loaded.load("wash")
    shelf.loaded.unload("tidy")
    again = LoadedSkills(lambda: shelf.library, 1_000)
    for record in shelf.records:
        again.fold(record)
    assert again.instructions() == {"wash": "Use warm water."}


def test_skill_unloaded_while_being_read_stays_unloaded(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.loaded.load("tidy")
    shelf.loaded.load("wash")
    read = shelf.library.instructions

    def unloaded_meanwhile(name: str) -> str:
        if "tidy" in shelf.loaded.names:
            shelf.loaded.unload("tidy")
        return read(name)

    monkeypatch.setattr(shelf.library, "instructions", unloaded_meanwhile)
    assert shelf.loaded.instructions() == {"wash": "Use warm water."}
    assert shelf.skill_records()[2:] == [("tidy", False, 16)]


@pytest.mark.parametrize("grown", [True, False])
def test_missing_or_oversized_skill_is_unloaded_with_a_notice(shelf: Shelf, grown: bool) -> None:
    shelf.loaded.load("tidy")
    shelf.loaded.load("wash")
    if grown:
        write_skill(shelf.folder, "tidy", content="x" * 1_001)
    else:
        (shelf.folder / "tidy" / "SKILL.md").unlink()
    assert shelf.loaded.instructions() == {"wash": "Use warm water."}
    assert shelf.skill_records()[-1] == ("tidy", False, 16)
    [notice] = shelf.notices()
    reason = "The skill tidy has 1,001 characters" if grown else "There is no skill"
    assert notice.startswith(f"The skill tidy is no longer loaded. {reason}")
