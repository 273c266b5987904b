"""300 generated skills and 60 queries, each with the skill that it asks for: 20 in the skill's own
words, 20 with one word of the same meaning, 20 with none of the skill's words."""

from __future__ import annotations

import random
from typing import NamedTuple

_ACTIONS = (
    "merge combine unite fuse|delete remove erase drop|convert translate transform recode|validate check verify audit|encrypt cipher scramble seal|"
    "compress shrink pack squeeze|schedule plan arrange book|draw plot chart graph|restore recover revive salvage|split divide separate partition|"
    "count tally enumerate number|publish release ship deploy|rename retitle relabel rebrand|forecast predict project anticipate|anonymise mask redact conceal"
).split("|")
_OBJECTS = (
    "invoice bill receipt voucher|customer client buyer patron|picture image photo snapshot|recording audio sound tape|employee worker staffer hire|"
    "contract agreement deal pact|warehouse depot storehouse stockroom|password passphrase credential pin|meeting appointment conference session|"
    "database repository archive store|salary wage pay earnings|vehicle car lorry van|website homepage portal site|message mail letter note|"
    "sensor probe detector gauge|patient inmate sufferer invalid|ticket issue complaint defect|recipe dish meal menu|flight journey trip voyage|"
    "forest wood grove jungle"
).split("|")

TOPICS = {word: group.split()[0] for group in (*_ACTIONS, *_OBJECTS) for word in group.split()}


class Query(NamedTuple):
    text: str
    skill: str
    """The name of the skill that answers it."""
    shared: int
    """How many of the skill's two words it uses."""


def skills() -> dict[str, str]:
    """The descriptions by name."""
    names = ((action.split(), thing.split()) for action in _ACTIONS for thing in _OBJECTS)
    return {
        f"{action[0]}-{thing[0]}": f"How to {action[0]} the {thing[1]} and each {thing[0]}, and what to {action[1]} first."
        for action, thing in names
    }


def queries() -> list[Query]:
    """The labelled queries."""
    chance = random.Random(7)
    pairs = chance.sample(
        [(action.split(), thing.split()) for action in _ACTIONS for thing in _OBJECTS], 60
    )
    made = []
    for number, (action, thing) in enumerate(pairs):
        shared = 2 - number // 20
        verb = action[0] if shared == 2 else action[2 + number % 2]
        noun = thing[0] if shared >= 1 else thing[2 + number % 2]
        made.append(Query(f"please {verb} my {noun} for me", f"{action[0]}-{thing[0]}", shared))
    return made
