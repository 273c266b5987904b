"""Has a real model search long texts: ``python -m tests.benchmarks searches [--url URL] ...``.

Each program gets the same model, through a proxy that counts calls and tokens. `rlms` and `dspy`
run in the Python of ``--peers``, which has them installed.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import inspect
import json
import re
import socket
import statistics
import subprocess
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from pydoc_data.topics import topics
from random import Random
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from tests.benchmarks.answers.baseline import complete
from tests.benchmarks.answers.items import DEVELOP, JUDGE
from tests.benchmarks.answers.run import find_model
from tests.benchmarks.search_kinds import kind_tasks
from tests.benchmarks.search_peers import __file__ as PEERS
from tests.services import LocalServer

_MOST_WRITTEN = 1_000
"""Tokens of one answer, because a model at temperature 0 may repeat itself without end."""
_FIRST_PART = 4_000
"""Characters of the text that the direct call reads."""
_TO_JUDGE_BY = ("clinic", "museum", "garage", "brewery")
"""Beginnings of the names of tasks whose answers are not printed, so that nobody fits a prompt to
them."""
_OF_KINDS = ("harbour", "library", "market", "depot", *_TO_JUDGE_BY)
"""Beginnings of the names of tasks of the kinds that small models get wrong."""
_SHORT = 0.025
"""Share of the lines of a short text."""

_USERS = ("ana", "bela", "chen", "dora", "emil", "farid", "gita", "hugo")
_NAMES = ("Ines Varga", "Tom Okafor", "Lena Brandt", "Paul Iversen", "Mira Sato", "Omar Haddad")

_FILLERS = (
    "Nothing to report.",
    "The gate was open from six to six.",
    "Two visitors signed the book.",
    "The lift was inspected.",
    "A parcel came for the second floor.",
)

_NEUTRAL = (
    "We arrived on a Tuesday by train.",
    "The way from the station takes ten minutes on foot.",
    "Breakfast is from seven to ten.",
    "Our room was on the third floor.",
    "There is a lift and a staircase.",
    "On Wednesday we went to the lake.",
    "The museum is closed on Mondays.",
    "We had rain for two days and sun for three.",
)
_LIKED = (
    "I have rarely slept so well.",
    "The food was wonderful.",
    "We did not want to leave.",
    "Everyone was kind to our children.",
)
_DISLIKED = (
    "I did not close an eye all night.",
    "The food was cold and bad.",
    "We counted the hours until we could leave.",
    "Everyone was rude to our children.",
)


class SearchTask(NamedTuple):
    """A question about a text, with its answer; `returns` is the answer's form."""

    name: str
    question: str
    text: str
    answer: Any
    returns: Any


def _task(name: str, question: str, text: str, answer: Any, returns: Any = None) -> SearchTask:
    form = list[str] if isinstance(answer, list) else type(answer)
    return SearchTask(name, question, text, answer, returns or form)


def _log(random: Random, lines: int) -> list[str]:
    """Make a log: time, level, service, user, milliseconds."""
    log_lines = []
    for number in range(lines):
        level = random.choices(("INFO", "WARN", "ERROR"), (90, 7, 3))[0]
        service = random.choice(("web", "search", "billing", "mail"))
        log_lines.append(
            f"2026-03-01 {number // 125 % 24:02}:{number // 2 % 60:02}:{number % 60:02} {level} {service} "
            f"user={random.choice(_USERS)} took={random.randrange(5, 900)}ms"
        )
    return log_lines


def _log_tasks(share: float) -> Iterator[SearchTask]:
    lines = _log(Random("log"), int(3_000 * share))
    lines[int(1_711 * share)] = (
        "2026-03-01 13:15:31 NOTE vault the code of the north vault is 4417-BF"
    )
    lines[int(2_204 * share)] = "2026-03-01 17:32:44 NOTE deploy release 8.4.1 went live"
    lines[int(905 * share)] = "2026-03-01 07:32:05 ERROR disk volume /data is full"
    text = "\n".join(lines) + "\n"
    pattern = r"\S+ \S+ (\S+) (\S+) user=(\w+) took=(\d+)ms"
    rows = [match.groups() for line in lines if (match := re.fullmatch(pattern, line))]
    yield _task("line code", "What is the code of the north vault?", text, "4417-BF")
    yield _task("line release", "Which release went live?", text, "8.4.1")
    yield _task("line volume", "Which volume is full?", text, "/data")
    pairs = [(level, service) for level, service, *_ in rows]
    question = "How many ERROR lines are of the service billing?"
    yield _task("count errors", question, text, pairs.count(("ERROR", "billing")))
    users = [user for _, _, user, _ in rows]
    yield _task("count user", "How many lines have user=gita?", text, users.count("gita"))
    question = "How many WARN lines are of the service mail?"
    yield _task("count warnings", question, text, pairs.count(("WARN", "mail")))
    slowest = max(int(took) for _, service, _, took in rows if service == "search")
    question = "What is the largest number of ms that a line of the service search took?"
    yield _task("largest", question, text, slowest)


def _order_tasks(share: float) -> Iterator[SearchTask]:
    random = Random("orders")
    rows = [
        (
            f"o{number:05}",
            f"c{random.randrange(100, 140)}",
            f"2026-{random.randint(1, 12):02}-{random.randint(1, 28):02}",
            random.choice(("chair", "desk", "lamp", "shelf")),
            random.randrange(5, 400),
        )
        for number in range(int(2_000 * share))
    ]
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    text = "order,customer,date,product,euro\n" + text

    def total(customer: str) -> int:
        return sum(row[4] for row in rows if row[1] == customer)

    question = "What is the sum of the euro of customer c117's orders?"
    yield _task("sum", question, text, total("c117"))
    of_march = sum(row[4] for row in rows if row[2].startswith("2026-03"))
    question = "What is the sum of the euro of all orders of March 2026?"
    yield _task("sum month", question, text, of_march)
    lamps = sum(row[3] == "lamp" for row in rows)
    yield _task("count orders", "How many orders are for a lamp?", text, lamps)
    best = max(sorted({row[1] for row in rows}), key=total)
    yield _task("best customer", "Which customer has the largest sum of euro?", text, best)
    first_date = min(row[2] for row in rows if row[1] == "c105")
    question = "What is the earliest date of an order of customer c105?"
    yield _task("first date", question, text, first_date)


def _manual_tasks() -> Iterator[SearchTask]:
    """Ask for facts in Python's language reference."""
    text = "\n\n".join(f"# {name}\n{topics[name]}" for name in sorted(topics))[:300_000]
    method = "Which method {}? Answer with its name.".format
    entering = method("is called on entering the context of a with statement")
    yield _task("manual with", entering, text, "__enter__")
    yield _task("manual del", method("implements deletion of self[key]"), text, "__delitem__")
    question = "Which exception does a failing assert statement raise?"
    yield _task("manual assert", question, text, "AssertionError")
    truth = method("is called to implement truth value testing and bool()")
    yield _task("manual bool", truth, text, "__bool__")


def _review_tasks() -> Iterator[SearchTask]:
    random = Random("reviews")
    usual = (
        "Works as it should.",
        "A little loud, but strong.",
        "My second one, still happy with it.",
        "It broke on the first day.",
        "Never again, it leaks.",
        "A waste of money.",
    )
    chosen = {
        1204: ("The handle came off in my hand and nobody answers my mails.", "negative"),
        2711: ("My mother loves it, and she never loves anything.", "positive"),
        1955: ("I sent it back after an hour.", "negative"),
        2210: ("I would buy it again at once.", "positive"),
    }
    text = "".join(
        f"Review {number}: {chosen[number][0] if number in chosen else random.choice(usual)}\n"
        for number in range(1_000, 3_000)
    )
    for number, (_, label) in chosen.items():
        question = f"Is review {number} positive or negative?"
        yield _task(f"class {number}", question, text, label, Literal["positive", "negative"])


def _hop_tasks() -> Iterator[SearchTask]:
    random = Random("hops")
    badges = dict(zip(random.sample(range(1000, 9999), len(_NAMES)), _NAMES, strict=True))
    rooms = dict(zip(_NAMES, random.sample(range(100, 400), len(_NAMES)), strict=True))
    lines = _log(random, 2_500)
    _, _, opened, _, asked_badge, _ = badges
    planted = [f"badge {badge} belongs to {name}" for badge, name in badges.items()]
    planted += [f"{name} works in room {room_number}" for name, room_number in rooms.items()]
    planted.append(f"the archive was opened with badge {opened}")
    for line in planted:
        lines.insert(random.randrange(len(lines)), line)
    text = "\n".join(lines) + "\n"
    yield _task("hop name", "Who opened the archive? Answer with the name.", text, badges[opened])
    question = f"In which room does the owner of badge {asked_badge} work? Answer with the number."
    yield _task("hop room", question, text, rooms[badges[asked_badge]])
    first_error_time = next(
        line.split()[1] for line in lines if "user=ana" in line and " ERROR " in line
    )
    question = (
        "At what time is the first ERROR of user=ana? Answer with the time, such as 12:34:56."
    )
    yield _task("hop time", question, text, first_error_time)
    slow = sorted(set(re.findall(r"ERROR mail user=(\w+) took=[78]\d\dms", text)))
    question = "Which users had an ERROR of the service mail that took 700 ms or more? Answer with a list of their names."
    yield _task("several", question, text, slow)


def _other_tasks() -> Iterator[SearchTask]:
    """Make searches in texts of other forms, added after the prompt was written."""
    random = Random("others")
    paths = ("/cart", "/login", "/search", "/help")
    statuses = (200, 404, 500)
    requests = [
        (random.choice(paths), random.choices(statuses, (90, 7, 3))[0], random.randrange(9_999))
        for _ in range(2_000)
    ]
    access = "".join(
        f'10.0.0.{n % 200} - - [05/May/2026:{n // 84:02}:{n % 60:02}:01] "GET {path} HTTP/1.1" {status} {size}\n'
        for n, (path, status, size) in enumerate(requests)
    )
    failed = sum(status == 500 for _, status, _ in requests)
    yield _task("other status", "How many requests got the status 500?", access, failed)
    sent = max(size for path, _, size in requests if path == "/help")
    yield _task("other size", "What is the largest size of an answer for /help?", access, sent)

    teams = ("Ops", "Sales", "Law")
    cities = ("Oslo", "Rome", "Lima")
    choose = random.choice
    people = [
        (f"Person{n}", choose(teams), choose(cities), random.randrange(30, 99) * 1_000)
        for n in range(800)
    ]
    staff = "name;team;city;salary\n" + "".join(f"{';'.join(map(str, row))}\n" for row in people)
    paid = sum(salary for _, team, city, salary in people if (team, city) == ("Law", "Rome"))
    question = "What is the sum of the salaries of the team Law in Rome?"
    yield _task("other salary", question, staff, paid)
    of_lima = sum(city == "Lima" for _, _, city, _ in people)
    yield _task("other city", "How many people work in Lima?", staff, of_lima)

    kinds = ("sale", "refund", "visit")
    events = [(n, random.choice(kinds), random.randrange(99)) for n in range(1_500)]
    lines = "".join(
        f'{{"id": {n}, "kind": "{kind}", "amount": {amount}}}\n' for n, kind, amount in events
    )
    refunds = sum(amount for _, kind, amount in events if kind == "refund")
    yield _task("other refunds", "What is the sum of the amounts of all refunds?", lines, refunds)
    question = "What is the default of the argument cutoff of get_close_matches?"
    yield _task("other cutoff", question, inspect.getsource(difflib), "0.6")

    usual = (
        "Nothing happened.",
        "The filter was cleaned.",
        "Two valves were checked.",
        "The night shift was quiet.",
    )
    notes = [f"Day {n}: {random.choice(usual)}" for n in range(1, 1_200)]
    notes[317] = "Day 318: At noon the old pump failed, and by evening it had been replaced."
    notes[860] = "Day 861: Mr Okafor signed the contract with Borealis for three years."
    notes[911] = "Day 912: Borealis moved its office to Tromso."
    diary = "\n".join(notes)
    question = "On which day was the pump replaced? Answer with the number of the day."
    yield _task("other pump", question, diary, 318)
    yield _task("other signed", "Who signed the contract with Borealis?", diary, "Okafor")
    question = "Where is the office of the company whose contract Mr Okafor signed?"
    yield _task("other office", question, diary, "Tromso")
    cleaned = diary.count("filter was cleaned")
    yield _task("other filter", "On how many days was the filter cleaned?", diary, cleaned)


def _harbour_tasks() -> Iterator[SearchTask]:
    """Make searches of the kinds that small models get wrong, to develop with."""
    random = Random("harbour")
    ships = ("Alba", "Brio", "Cygnus", "Dora May", "Elster")
    goods = ("coffee", "timber", "cement", "fruit")
    loads: list[tuple[int, str, str, int]] = []
    for number in range(700):
        ship = random.choice(ships)
        most_tons = 840 if ship == "Cygnus" else 900
        loads.append((number, ship, random.choice(goods), random.randrange(20, most_tons)))
    lines = [f"{n:04} ship={ship} cargo={cargo} tons={tons}" for n, ship, cargo, tons in loads]
    lines += [f"note {n:04}: {random.choice(_FILLERS)}" for n in range(300)]
    random.shuffle(lines)
    for at, line in (
        (120, "note: the berth of the Alba is 7"),
        (610, "note: from today the berth of the Alba is 11"),
        (300, "note: pilot Ruiz brought in the ship that lay at berth 3 in the storm"),
        (820, "note: in the storm the Elster lay at berth 3"),
        (455, "note: during the night the north crane toppled into the basin"),
    ):
        lines.insert(at, line)
    text = "\n".join(lines) + "\n"

    timber = sum(tons for _, ship, cargo, tons in loads if (ship, cargo) == ("Brio", "timber"))
    yield _task("harbour sum", "How many tons of timber did the Brio bring?", text, timber)
    heaviest = max(tons for _, ship, _, tons in loads if ship == "Cygnus")
    question = "What is the largest number of tons that the Cygnus brought at once?"
    yield _task("harbour largest", question, text, heaviest)
    heavy_ships = {ship for _, ship, cargo, tons in loads if cargo == "fruit" and tons > 865}
    question = "How many different ships brought more than 865 tons of fruit at once?"
    yield _task("harbour different", question, text, len(heavy_ships))
    yield _task("harbour hops", "Which ship did pilot Ruiz bring in?", text, "Elster")
    yield _task("harbour later", "At which berth does the Alba lie now?", text, 11)
    question = "Which machine fell into the water? Answer with its name."
    yield _task("harbour meaning", question, text, "crane")


def _clinic_tasks() -> Iterator[SearchTask]:
    """Make searches of the same kinds, to judge by."""
    random = Random("clinic")
    doctors = ("Amsel", "Birk", "Castro", "Dahl")
    rooms = ("blue", "green", "red")
    visits: list[tuple[int, str, str, int]] = []
    for number in range(800):
        doctor = random.choice(doctors)
        fewest_minutes = 9 if doctor == "Castro" else 5
        clinic_room = random.choice(rooms if doctor != "Dahl" else rooms[:2])
        visits.append((number, doctor, clinic_room, random.randrange(fewest_minutes, 90)))
    lines = [
        f"visit {number}: doctor={doctor} room={clinic_room} minutes={minutes}"
        for number, doctor, clinic_room, minutes in visits
    ]
    lines += [f"day book {n}: {random.choice(_FILLERS)}" for n in range(250)]
    random.shuffle(lines)
    for at, line in (
        (90, "day book: the head nurse is Olga Prill"),
        (700, "day book: Olga Prill retired; the head nurse is now Ben Otieno"),
        (200, "day book: key 31 was found in the garden"),
        (560, "day book: key 31 opens the archive on the third floor"),
        (410, "day book: smoke came out of the laundry, and the fire brigade put it out"),
    ):
        lines.insert(at, line)
    text = "\n".join(lines) + "\n"

    green = sum(
        minutes
        for _, doctor, clinic_room, minutes in visits
        if (doctor, clinic_room) == ("Birk", "green")
    )
    question = "How many minutes did doctor Birk spend in the green room altogether?"
    yield _task("clinic sum", question, text, green)
    shortest = min(minutes for _, doctor, _, minutes in visits if doctor == "Castro")
    question = "What is the smallest number of minutes of a visit to doctor Castro?"
    yield _task("clinic smallest", question, text, shortest)
    long_doctors = {
        doctor
        for _, doctor, clinic_room, minutes in visits
        if clinic_room == "red" and minutes > 86
    }
    question = "How many different doctors had a visit of more than 86 minutes in the red room?"
    yield _task("clinic different", question, text, len(long_doctors))
    question = "What does the key that was found in the garden open?"
    yield _task("clinic hops", question, text, "archive")
    yield _task("clinic later", "Who is the head nurse today?", text, "Otieno")
    question = "In which room of the house did something burn? Answer with its name."
    yield _task("clinic meaning", question, text, "laundry")


def _judged_tasks() -> Iterator[SearchTask]:
    """Make questions about short texts as a whole, with answers that are not in the text."""
    random = Random("letters")
    for number, label in enumerate(("positive", "negative", "positive", "negative")):
        lines = random.choices(_NEUTRAL, k=20)
        lines += random.choices(_LIKED if label == "positive" else _DISLIKED, k=12)
        random.shuffle(lines)
        letter = "\n".join(lines)
        question = "How does the guest feel about the hotel: positive or negative?"
        yield _task(f"letter {number}", question, letter, label, Literal["positive", "negative"])
    for name, text, kind in (
        ("kind slicings", topics["slicings"], "manual"),
        ("kind letter", letter, "letter"),
        ("kind integers", topics["integers"], "manual"),
        ("kind log", "\n".join(_log(random, 30)), "log"),
    ):
        question = "Is this a letter, a manual or a log?"
        yield _task(name, question, text, kind, Literal["letter", "manual", "log"])


def tasks(*, short: bool = False) -> list[SearchTask]:
    """Make the tasks. short: over texts that a model can read at once."""
    if short:
        candidates = (*_log_tasks(_SHORT), *_order_tasks(_SHORT), *_judged_tasks())
        return [task for task in candidates if task.answer]  # 0 is right by chance
    tuned = [*_log_tasks(1), *_order_tasks(1), *_manual_tasks(), *_review_tasks(), *_hop_tasks()]
    of_kinds = [
        _task(*kind_task) for half in (False, True) for kind_task in kind_tasks(to_judge_by=half)
    ]
    return [*tuned, *_other_tasks(), *_harbour_tasks(), *_clinic_tasks(), *of_kinds]


def is_right(task: SearchTask, answer: Any) -> bool:
    """Judge an answer: a value of the wanted form, or words with it and no other number."""
    if isinstance(task.answer, list):
        if isinstance(answer, list | tuple | set):
            return sorted(map(str, answer)) == task.answer
        return sorted({user for user in _USERS if user in str(answer)}) == task.answer
    if isinstance(task.answer, int):
        if isinstance(answer, int | float):
            return bool(answer == task.answer)
        numbers = re.findall(r"\d+(?:\.\d+)?", str(answer).replace(",", ""))
        return str(task.answer) in numbers[-1:]
    words = str(answer)
    if task.returns is not str:  # of two classes, the one that it names
        named = re.findall("|".join(get_args(task.returns)), words.lower())
        return bool(named) and set(named) == {task.answer}
    return task.answer.lower() in words.lower()


class Proxy:
    """Forwards the requests of one search to a server, and counts."""

    def __init__(self, url: str, transcript: Path | None) -> None:
        self.counts: Counter[str] = Counter()
        """Calls, tokens, and calls whose first block of code had been written before."""
        self._blocks: set[str] = set()
        self._ended = threading.Condition()
        self._running = 0
        self._connections: list[HTTPConnection] = []
        self._url = url
        self._transcript = transcript
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                proxy.forward(self, None)

            def do_POST(self) -> None:
                with proxy._ended:
                    proxy._running += 1
                try:
                    proxy.forward(self, self.rfile.read(int(self.headers["Content-Length"])))
                finally:
                    with proxy._ended:
                        proxy._running -= 1
                        proxy._ended.notify_all()

        server = LocalServer(Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}/v1"

    def wait(self, *, stop: bool) -> None:
        """Wait until all calls are counted, which may end after the answer. stop: end them first,
        because their program is gone."""
        for connection in self._connections if stop else ():
            with contextlib.suppress(OSError, AttributeError):  # it has ended
                connection.sock.shutdown(socket.SHUT_RDWR)
        with self._ended:
            self._ended.wait_for(lambda: not self._running, 60)

    def forward(self, handler: BaseHTTPRequestHandler, data: bytes | None) -> None:
        """Forward a request, and its reply line by line."""
        target = self._url + handler.path.removeprefix("/v1")
        body = None
        if data is not None:
            body = json.loads(data)
            max_tokens = (
                body.get("max_tokens") or body.pop("max_completion_tokens", None) or _MOST_WRITTEN
            )
            body["max_tokens"] = min(max_tokens, _MOST_WRITTEN)
            body["temperature"] = 0
            if body.get("stream"):
                body["stream_options"] = {"include_usage": True}
            data = json.dumps(body).encode()
        address = urlsplit(target)
        connection = HTTPConnection(address.netloc, timeout=600)
        self._connections.append(connection)
        with contextlib.suppress(OSError, HTTPException), contextlib.closing(connection):
            method = "GET" if data is None else "POST"
            connection.request(method, address.path, data, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            if reply.status != HTTPStatus.OK:
                body = None
            handler.send_response(reply.status)
            handler.send_header("Content-Type", reply.headers["Content-Type"])
            handler.end_headers()  # it ends with the connection
            lines = []
            for line in reply:
                handler.wfile.write(line)
                lines.append(line.decode())
            if body is not None:
                self._count("".join(lines), body)

    def _count(self, answer: str, body: dict[str, Any]) -> None:
        replies = [
            json.loads(line.removeprefix("data: "))
            for line in answer.splitlines()
            if line.startswith("data: {")
        ] or [json.loads(answer)]
        usage = dict[str, Any]()
        timings = dict[str, Any]()
        words = ""
        for reply in replies:
            usage = reply.get("usage") or usage
            timings = reply.get("timings") or timings
            for choice in reply.get("choices", ()):
                words += (choice.get("delta") or choice.get("message") or {}).get("content") or ""
        read = usage.get("prompt_tokens", 0)
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        cached = cached or timings.get("cache_n", 0)
        added = {"calls": 1, "read": read, "cached": cached}
        added["written"] = usage.get("completion_tokens", 0)
        if self.counts:
            added |= {"later_read": read, "later_cached": cached}
        if block := re.search(r"```\w*\n(.*?)(?:```|\Z)", words, re.DOTALL):
            added["repeated"] = block[1].strip() in self._blocks
            self._blocks.add(block[1].strip())
        self.counts.update(added)
        if self._transcript is not None:
            with self._transcript.open("a") as file:
                for message in body["messages"][-2:]:
                    print(f"--- {message['role']}\n{message['content']}", file=file)
                print(f"=== answer\n{words}\n", file=file)


def search_directly(proxy: Proxy, model: str, task: SearchTask) -> Any:
    """Have the model read the first part of the text."""
    words = f"{task.text[:_FIRST_PART]}\n\n{task.question} Answer briefly."
    message = {"role": "user", "content": words}
    reply = complete(proxy.url, {"model": model, "messages": [message]}, 600)
    return reply["choices"][0]["message"]["content"]


def search_by_ourselves(proxy: Proxy, model: str, task: SearchTask, **options: Any) -> Any:
    from mahtab_tui.llm.providers import get_llm
    from mahtab_tui.search.api import rlm

    llm = get_llm(f"openai:{model}", base_url=proxy.url)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an answer in another form
        options |= {"returns": task.returns, "model": llm, "max_turns": 8, "yes": True}
        answer = rlm(task.question, task.text, **options)
    return answer if answer.value is None else answer.value


def _by_peer(python: str, engine: str, seconds: float) -> Callable[[Proxy, str, SearchTask], Any]:
    def search(proxy: Proxy, model: str, task: SearchTask) -> Any:
        job = {"engine": engine, "url": proxy.url, "model": model}
        job |= {"question": task.question, "text": task.text}
        done = subprocess.run(
            [python, PEERS],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
        return json.loads(done.stdout.splitlines()[-1])["answer"]

    return search


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks searches", description=__doc__
    )
    add = parser.add_argument
    add("--url", default="http://127.0.0.1:8080/v1")
    add("--model", help="by default the first that the server lists")
    add("--peers", metavar="PYTHON", help="a Python that has rlms and dspy")
    add("--seconds", type=float, default=900, help="longest search of a peer")
    add("--program", action="append", help="only this one; may be repeated")
    add("--only", action="append", default=[], help="only tasks that begin so")
    add("--short", action="store_true", help="texts of 4,000 characters")
    add("--half", choices=[DEVELOP, JUDGE], help="only searches to develop with, or to judge by")
    add(
        "--kinds",
        action="store_true",
        help="only searches of the kinds that small models get wrong",
    )
    add("--json", type=Path, help="a file to add a line to for each search: program, task, right")
    add("--transcript", type=Path, help="a file to write all messages to")
    chosen = parser.parse_args(arguments)
    model = find_model(chosen.url, chosen.model)
    programs: dict[str, Callable[[Proxy, str, SearchTask], Any]] = {
        "direct": search_directly,
        "mahtab-tui": search_by_ourselves,
        "by code": partial(search_by_ourselves, small=0),
    }
    names = ("rlms", "dspy") if chosen.peers else ()
    programs |= {name: _by_peer(chosen.peers, name, chosen.seconds) for name in names}
    for name, search in programs.items():
        if name in (chosen.program or ["direct", "mahtab-tui", *names]):
            _measure(name, search, chosen, model)


def _choose_tasks(chosen: argparse.Namespace) -> list[SearchTask]:
    names = tuple(chosen.only) or ("",)
    if chosen.kinds:
        names = tuple(name for name in _OF_KINDS if not chosen.only or name.startswith(names))
    chosen_tasks = [task for task in tasks(short=chosen.short) if task.name.startswith(names)]
    if chosen.half is None:
        return chosen_tasks
    judges = chosen.half == JUDGE
    return [task for task in chosen_tasks if task.name.startswith(_TO_JUDGE_BY) == judges]


def _measure(
    name: str, search: Callable[[Proxy, str, SearchTask], Any], chosen: Any, model: str
) -> None:
    right = 0
    seconds = []
    sums = Counter[str]()
    chosen_tasks = _choose_tasks(chosen)
    for task in chosen_tasks:
        is_to_judge_by = task.name.startswith(_TO_JUDGE_BY)
        proxy = Proxy(chosen.url, None if is_to_judge_by else chosen.transcript)
        began = time.monotonic()
        if chosen.transcript and not is_to_judge_by:
            with chosen.transcript.open("a") as file:
                print(f"\n##### {name}: {task.name}: {task.question} [{task.answer}]", file=file)
        try:
            answer = search(proxy, model, task)
        except Exception as error:  # whatever a program raises
            answer = f"{type(error).__name__}: {error}"
        took = time.monotonic() - began
        counts = proxy.counts
        proxy.wait(stop="TimeoutExpired" in str(answer))
        good = is_right(task, answer)
        right += good
        seconds.append(took)
        sums += counts
        if chosen.json:
            with chosen.json.open("a") as file:
                saved = {"program": name, "task": task.name, "right": good, "seconds": round(took)}
                print(json.dumps(saved | dict(counts)), file=file)
        if is_to_judge_by:
            print(f"{name:<11}{len(seconds)} asked", flush=True)
            continue
        answer_start = " ".join(str(answer).split())[:70]
        print(
            f"{name:<11}{task.name:<18}{'right' if good else 'WRONG':<6}{counts['calls']:>3} calls{counts['read']:>7}"
            f"{counts['written']:>6}{took:>7.0f} s  {answer_start!r} [{task.answer}]",
            flush=True,
        )
    share = sums["later_cached"] / (sums["later_read"] or 1)
    print(
        f"{name}: {right} of {len(chosen_tasks)} right, {sums['calls']} calls, {sums['read']:,} tokens read ({sums['read'] - sums['cached']:,} not from the "
        f"cache; {share:.0%} cached from the second call on), {sums['written']:,} written, {sums['repeated']} blocks twice, "
        f"{statistics.median(seconds):.0f} s median, {sum(seconds):.0f} s",
        flush=True,
    )
