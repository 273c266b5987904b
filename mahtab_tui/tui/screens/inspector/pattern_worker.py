"""Matches a regular expression in texts, in a process of its own, which can be killed: the standard library only, run as a file.

The first line of stdin is the pattern (JSON), answered by null or by what is wrong with it. Each further one is [text, from, to, backwards]:
answered by the first match (backwards: the last) that begins there, as [start, end], or by null.
"""

import json
import re
import signal
import sys

LONGEST = 30
"""Seconds after which it ends by itself: whoever began it may have been killed, and a pattern that tries too many ways does not see that."""


def main() -> None:
    signal.alarm(LONGEST)
    words = json.loads(sys.stdin.readline())
    flags = 0 if any(map(str.isupper, re.sub(r"\\.", "", words))) else re.IGNORECASE
    try:
        pattern = re.compile(words, flags | re.MULTILINE)
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        _say(str(getattr(error, "msg", "") or "it is too large"))
        return
    _say(None)
    for line in sys.stdin:
        text, first, last, backwards = json.loads(line)
        found = None
        for match in pattern.finditer(text, first):
            if match.start() >= last:
                break
            if match.end() > match.start():
                found = [match.start(), match.end()]
                if not backwards:
                    break
        _say(found)


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


main()
