"""Searches of the kinds that small models get wrong, over six made-up texts: a sum, an extreme, the
number of different values, the number above a limit, two hops, the later of two statements, and a
meaning without its word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

_ROWS = 700
_NOTES = 200
"""Lines of prose among the rows, without those that answer a question."""
_MARGIN = 3
"""By how much the extreme of the rows that are meant differs from that of all rows, at least."""


class _Row(NamedTuple):
    number: int
    who: str
    what: str
    amount: int


class _Fact(NamedTuple):
    """A question that lines of prose answer."""

    question: str
    lines: tuple[str, ...]
    """In their order in the text."""
    answer: str | int


class _Question(NamedTuple):
    """A question whose answer is computed from the rows."""

    question: str
    who: str = ""
    what: str = ""
    """Of the rows that are meant; empty for all."""
    limit: int = 0
    """Only rows with a larger amount are meant."""


class _Domain(NamedTuple):
    """A text, and seven questions about it."""

    name: str
    is_to_judge_by: bool
    who: Sequence[str]
    what: Sequence[str]
    max_amount: int
    row: Callable[[_Row], str]
    """Return a row as the text writes it."""
    note: Callable[[str], str]
    """Return a line of prose as the text writes it."""
    fillers: Sequence[str]
    total: _Question
    largest: _Question
    different: _Question
    """Asks for the number of different values of `who`."""
    above: _Question
    hops: _Fact
    later: _Fact
    meaning: _Fact
    header: str = ""


_DOMAINS = (
    _Domain(
        "library",
        False,
        ("Ada", "Bruno", "Clara", "Dmitri", "Elif", "Femi"),
        ("poetry", "travel", "cooking", "law"),
        60,
        lambda row: f"{row.number},{row.who},{row.what},{row.amount},",
        lambda text: f",,,,{text}",
        ("The lamp was repaired.", "A quiet day.", "Two chairs were moved."),
        _Question("How many days did Clara keep cooking books in total?", "Clara", "cooking"),
        _Question("What is the longest that Bruno kept a book, in days?", "Bruno"),
        _Question("How many different readers kept a law book for more than 56 days?", what="law", limit=56),
        _Question("How many travel books were kept for more than 40 days?", what="travel", limit=40),
        _Fact(
            "What does the reader do who found the brass key? Answer with the profession.",
            ("The brass key was found by Mr Oduya.", "Mr Oduya is a dentist."),
            "dentist",
        ),
        _Fact(
            "On which floor is the reading room now? Answer with the number.",
            ("The reading room is on floor 2.", "The reading room moved to floor 5."),
            5,
        ),
        _Fact(
            "Which animal got into the building? Answer with its name.",
            ("A fox ran through the entrance hall and out of the back door.",),
            "fox",
        ),
        header="number,reader,subject,days,remark",
    ),
    _Domain(
        "market",
        False,
        ("Greta", "Hamid", "Irene", "Jonas", "Keiko"),
        ("apples", "honey", "bread", "cheese"),
        80,
        lambda row: f"{row.who} sold {row.amount} kg of {row.what}.",
        lambda text: text,
        ("It rained for an hour.", "Many visitors came.", "The band played."),
        _Question("How much honey did Hamid sell altogether, in kg?", "Hamid", "honey"),
        _Question("What is the most that Irene sold at once, in kg?", "Irene"),
        _Question("How many different people sold more than 76 kg of bread at once?", what="bread", limit=76),
        _Question("How often did somebody sell more than 60 kg of apples?", what="apples", limit=60),
        _Fact(
            "From which town does the owner of stall 14 come?",
            ("Stall 14 belongs to the Lindgren family.", "The Lindgren family comes from Ystad."),
            "Ystad",
        ),
        _Fact(
            "Who is the market's warden today?",
            ("The market's warden is Paolo Rinaldi.", "Since Paolo Rinaldi left, Vera Blum is the market's warden."),
            "Blum",
        ),
        _Fact(
            "What was stolen? Answer with one word.",
            ("In the morning the scales of the fishmonger were gone, and a window stood open.",),
            "scales",
        ),
    ),
    _Domain(
        "depot",
        False,
        ("K1", "K2", "K3", "K4", "K5", "K6"),
        ("gravel", "sand", "bricks"),
        40,
        lambda row: f"{row.number:05} | truck: {row.who} | goods: {row.what} | tons: {row.amount}",
        lambda text: f"----- | {text}",
        ("the gate was greased", "no visitors", "the scale was tested"),
        _Question("What do the tons of sand that truck K3 carried add up to?", "K3", "sand"),
        _Question("What is the heaviest load of truck K5, in tons?", "K5"),
        _Question("How many distinct trucks carried more than 38 tons of gravel?", what="gravel", limit=38),
        _Question("How many loads of bricks were above 30 tons?", what="bricks", limit=30),
        _Fact(
            "Which truck does the driver with licence 5581 drive?",
            ("licence 5581 is held by Otto Prinz", "Otto Prinz drives truck K4"),
            "K4",
        ),
        _Fact(
            "What is the speed limit in the yard at present, in km/h?",
            ("speed limit in the yard: 20 km/h", "speed limit in the yard changed to 10 km/h"),
            10,
        ),
        _Fact(
            "Which part of a truck broke? Answer with its name.",
            ("the axle of a truck snapped at the ramp",),
            "axle",
        ),
    ),
    _Domain(
        "museum",
        True,
        ("Lotte", "Milan", "Nadia", "Oskar", "Petra", "Quentin"),
        ("vases", "coins", "maps", "masks"),
        50,
        lambda row: f'{{"id": {row.number}, "guide": "{row.who}", "room": "{row.what}", "visitors": {row.amount}}}',
        lambda text: f'{{"id": 0, "remark": "{text}"}}',
        ("The heating was off.", "A school class came.", "A label was replaced."),
        _Question("How many visitors did Nadia guide through the room of coins all in all?", "Nadia", "coins"),
        _Question("What is the largest group that Oskar guided?", "Oskar"),
        _Question("How many different guides had more than 47 visitors in the room of maps?", what="maps", limit=47),
        _Question("How many groups in the room of masks had more than 35 visitors?", what="masks", limit=35),
        _Fact(
            "In which year was the painter of the blue portrait born?",
            ("The blue portrait was painted by Edda Holm.", "Edda Holm was born in 1871."),
            1871,
        ),
        _Fact(
            "What does a ticket cost now, in euro?",
            ("A ticket costs 9 euro.", "From today a ticket costs 12 euro."),
            12,
        ),
        _Fact(
            "What did a visitor destroy? Answer with one word.",
            ("A man stumbled, and the pitcher of the third case lay in pieces.",),
            "pitcher",
        ),
    ),
    _Domain(
        "garage",
        True,
        ("Rosa", "Samir", "Tilda", "Umar", "Vito"),
        ("brakes", "tyres", "engines", "lights"),
        90,
        lambda row: f"{row.who} worked {row.amount} minutes on {row.what}.",
        lambda text: text,
        ("The radio was loud.", "The oil was delivered.", "The hoist was cleaned."),
        _Question("How many minutes did Tilda work on engines altogether?", "Tilda", "engines"),
        _Question("What is the longest time that Umar worked at one go, in minutes?", "Umar"),
        _Question("How many different people worked more than 86 minutes on brakes at one go?", what="brakes", limit=86),
        _Question("How often did somebody work more than 70 minutes on tyres?", what="tyres", limit=70),
        _Fact(
            "Which colour has the car of the customer who left the umbrella?",
            ("The umbrella was left by Dr Fontaine.", "The car of Dr Fontaine is turquoise."),
            "turquoise",
        ),
        _Fact(
            "Who is the foreman at the moment?",
            ("The foreman is Ludwig Stern.", "Ludwig Stern fell ill, so Amina Diop is the foreman."),
            "Diop",
        ),
        _Fact(
            "Which device caught fire? Answer with its name.",
            ("Flames came out of the compressor, but the extinguisher was at hand.",),
            "compressor",
        ),
    ),
    _Domain(
        "brewery",
        True,
        ("T1", "T2", "T3", "T4", "T5"),
        ("stout", "lager", "wheat"),
        95,
        lambda row: f"{row.number:05};tank {row.who};{row.what};{row.amount} hl",
        lambda text: f"note;{text}",
        ("the floor was washed", "a visitor from the bank", "malt arrived"),
        _Question("How many hl of stout came from tank T2 in all?", "T2", "stout"),
        _Question("What is the smallest number of hl that tank T4 gave at once?", "T4"),
        _Question("How many different tanks gave more than 88 hl of lager at once?", what="lager", limit=88),
        _Question("How many times did a tank give more than 75 hl of wheat?", what="wheat", limit=75),
        _Fact(
            "In which town is the firm that repaired valve 9?",
            ("valve 9 was repaired by the firm Kolb", "the firm Kolb has its workshop in Passau"),
            "Passau",
        ),
        _Fact(
            "How many degrees has the cellar now?",
            ("the cellar is kept at 8 degrees", "the cellar is kept at 6 degrees from now on"),
            6,
        ),
        _Fact(
            "What did the mice eat? Answer with one word.",
            ("there were gnawed holes in the sacks, and little of the barley was left",),
            "barley",
        ),
    ),
)  # fmt: skip


class KindTask(NamedTuple):
    """A question about a text, with its answer."""

    name: str
    question: str
    text: str
    answer: str | int


def kind_tasks(*, to_judge_by: bool) -> Iterator[KindTask]:
    """Make the searches of one half, seven for each text."""
    for domain in _DOMAINS:
        if domain.is_to_judge_by == to_judge_by:
            yield from _domain_tasks(domain)


def _domain_tasks(domain: _Domain) -> Iterator[KindTask]:
    random = Random(domain.name)
    rows = [
        _Row(n, random.choice(domain.who), random.choice(domain.what), random.randrange(1, domain.max_amount + 1))
        for n in range(1, _ROWS + 1)
    ]  # fmt: skip
    # The extreme of all rows is not that of the rows that are meant, and one of the values never
    # meets the condition of the question about different values.
    extreme_who = domain.largest.who
    rows = [
        row._replace(amount=max(_MARGIN, min(row.amount, domain.max_amount - _MARGIN)))
        if row.who == extreme_who
        else row
        for row in rows
    ]
    rare_who = random.choice([name for name in domain.who if name != extreme_who])
    asked = domain.different
    rows = [
        row
        if (row.who, row.what) != (rare_who, asked.what)
        else row._replace(amount=min(row.amount, asked.limit))
        for row in rows
    ]
    lines = [domain.row(row) for row in rows]
    lines += [domain.note(random.choice(domain.fillers)) for _ in range(_NOTES)]
    random.shuffle(lines)
    facts = (domain.hops, domain.later, domain.meaning)
    for fact in facts:
        places = sorted(random.sample(range(len(lines)), len(fact.lines)))
        if fact is domain.hops:
            places.reverse()
        for place, line in zip(places, fact.lines, strict=True):
            lines.insert(place, domain.note(line))
    text = "\n".join([domain.header, *lines] if domain.header else lines) + "\n"

    def amounts(question: _Question) -> list[int]:
        return [row.amount for row in _meant(rows, question)]

    is_smallest = "smallest" in domain.largest.question
    extreme = (min if is_smallest else max)(amounts(domain.largest))
    different = len({row.who for row in _meant(rows, domain.different)})
    computed: tuple[tuple[str, _Question, int], ...] = (
        ("sum", domain.total, sum(amounts(domain.total))),
        ("largest", domain.largest, extreme),
        ("different", domain.different, different),
        ("count", domain.above, len(amounts(domain.above))),
    )
    for kind, question, answer in computed:
        yield KindTask(f"{domain.name} {kind}", question.question, text, answer)
    for kind, fact in zip(("hops", "later", "meaning"), facts, strict=True):
        yield KindTask(f"{domain.name} {kind}", fact.question, text, fact.answer)


def _meant(rows: Sequence[_Row], question: _Question) -> list[_Row]:
    """Return the rows that a question is about."""
    return [
        row
        for row in rows
        if question.who in ("", row.who)
        and question.what in ("", row.what)
        and row.amount > question.limit
    ]
