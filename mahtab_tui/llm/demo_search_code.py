"""The code that the demo model writes in a search. The variables that it uses are set by the turns before."""

from __future__ import annotations

OVERVIEW = """\
import re
from collections import Counter

print(peek(400))
lines = grep("", max_matches=20_000)
digits = re.compile(r"\\w*\\d\\w*")
shapes = Counter(digits.sub("#", line[:200]).strip() for line in lines)
common = "\\n".join(f"{count:,} x {shape}" for shape, count in shapes.most_common(8) if shape)
first = "\\n".join(line[:300] for line in lines[:3])
FINAL(f"{who}my rules find no word in the query to look for, so here is what the text is like.\\n\\nIt begins with\\n{first}\\n\\n"
      f"Its most frequent kinds of lines (of the first {len(lines):,}; # stands for what has digits)\\n{common}\\n\\nIt ends with\\n{peek(300, -300)}")
"""

LOOK = """\
print(peek(400))
print("...")
counts = {word: len(grep(pattern, max_matches=5000)) for word, pattern in patterns.items()}
for word, count in sorted(counts.items(), key=lambda item: item[1]):
    print(f"{word}: {count} lines")
"""
"""Turn 1. Needs `patterns`."""

FILTER = """\
import re

# The rarest word first; then the lines that have most of the others.
rarest, *others = [re.compile(patterns[word]) for word in words]
hits = grep(rarest, max_matches=None)

tests = [lambda line, pattern=pattern: pattern.search(line) is not None for pattern in others]

def score(line):
    return sum(test(line) for test in tests)

def number(hit):
    return getattr(hit, "line", "?")  # not every sandbox knows it

best = max(map(score, hits))
hits = [hit for hit in hits if score(hit) == best]
print(f"{len(hits)} lines have {best + 1} of the {len(tests) + 1} signs")
for hit in hits[:3]:
    print(number(hit), hit[:300])
"""
"""Turn 2. Needs `words`, the rarest first."""

HAVE = """\
said = ", ".join([word for word in patterns if word in words] + bounds)
if best < len(tests):
    said = f"{best + 1} of {said}"
missing = [word for word in patterns if word not in words]
if missing:
    said += f"; no line has {', '.join(missing)}"
have = f"{len(hits):,} {'line has' if len(hits) == 1 else 'lines have'} {said}"
"""

VALUES = """\
found = {}
for field in fields:
    found = {}
    field = re.compile(field)
    for hit in hits:
        match = field.search(hit)
        if match:
            found.setdefault(match[1].rstrip(".,;:"), []).append(number(hit))
    if sum(len(lines) for lines in found.values()) * 2 >= len(hits):
        break
    found = {}
print(f"{len(found)} different values")
"""
"""The values in the lines. Needs `fields`, the best first."""

COUNT = """\
again = sum(
    1 for part in partition(8) for line in part.split("\\n") if rarest.search(line) and score(line) == best
)
check = "a second count agrees" if again == len(hits) else f"a second count gives {again:,}"
first = "\\n".join(f"line {number(hit)}: {hit[:200]}" for hit in hits[:5])
"""

FINAL_COUNT = 'FINAL(f"{who}{have} ({check}). The first of them:\\n{first}")\n'
FINAL_BARE_COUNT = "FINAL(len(hits))\n"
FINAL_DIFFERENT = "FINAL(f\"{who}{len(found):,} different {noun}, in {len(hits):,} lines that have {said}: {', '.join(found)}\"[:30_000])\n"

FINAL_VALUES = """\
if found:
    listed = "\\n".join(f"{value} (line {', '.join(map(str, lines[:5]))}{', …' if len(lines) > 5 else ''})" for value, lines in found.items())
    FINAL(f"{who}{len(found):,} {noun} ({have}):\\n{listed}"[:30_000])
"""
FINAL_BARE_VALUES = """\
if found:
    FINAL("\\n".join(found)[:30_000])
"""

FINAL_MOST = """\
if found:
    ranked = sorted(found.items(), key=lambda item: -len(item[1]))
    listed = "\\n".join(f"{value}: {len(lines)} lines, the first is line {lines[0]}" for value, lines in ranked[:10])
    FINAL(f"{who}{len(found):,} {noun} ({have}); those with the most of them:\\n{listed}"[:30_000])
"""

FINAL_LINES = """\
around = [grep("^" + re.escape(hit) + "$", 1, 1)[0] for hit in hits[:5]] if len(hits) <= 5 else []
listed = "\\n".join(f"line {number(hit)}: {hit[:500]}" for hit in hits[:50])
more = "" if len(hits) <= 50 else f"\\n... and {len(hits) - 50:,} more"
nearby = "".join(f"\\n\\nAround it, from line {number(block)}:\\n{block[:1500]}" for block in around)
FINAL(f"{who}{have}:\\n{listed}{more}{nearby}"[:30_000])
"""
FINAL_BARE_LINES = 'FINAL("\\n".join(f"line {number(hit)}: {hit[:500]}" for hit in hits[:10]))\n'

RECURSE = """\
parts, first = [], []
line = 1
for part in partition(n):
    if rarest.search(part):
        parts.append(part)
        first.append(line)
    line += part.count("\\n")
answers = rlm_map(query, parts)
answered = [not answer.startswith("[failed") for answer in answers]
print(sum(answered), "of", len(parts), "parts answered")
for line, answer in zip(first, answers):
    print(f"from line {line}: {answer[:100]!r}")
"""
"""Needs `n` and `query`."""

MERGE_VALUES = """\
lines = [line.strip() for answer, good in zip(answers, answered) if good for line in answer.split("\\n")]
joined = list(dict.fromkeys(line for line in lines if line))
print(len(joined), "different values from the parts")
"""

MERGE_LINES = """\
joined = []
for line, answer, good in zip(first, answers, answered):
    for at, words in re.findall(r"(?m)^line (\\d+|\\?): (.*)", answer if good else ""):
        joined.append(f"line {int(at) + line - 1 if at.isdigit() else at}: {words}")
print(len(joined), "lines from the parts")
"""

FINAL_JOINED_VALUES = """\
listed = "\\n".join(f"{value} (line {found[value][0]})" if value in found else value for value in joined)
missing = [value for value in found if value not in joined]
check = "A search by code finds the same." if not missing else f"A search by code finds these too: {', '.join(missing)}"
FINAL(f"{who}{len(joined):,} {noun}, from {sum(answered)} of {len(parts)} parts of the text ({have}). {check}\\n{listed}"[:30_000])
"""
FINAL_BARE_JOINED = """\
FINAL("\\n".join(joined)[:30_000])
"""
FINAL_JOINED_LINES = """\
listed = "\\n".join(joined[:60])
FINAL(f"{who}{have}. Those that {sum(answered)} of {len(parts)} parts of the text name:\\n{listed}"[:30_000])
"""
