"""How fast the schema registry answers: `python -m bench.registry [COUNT [CLIENTS [LOG]]]`.

A server of its own, on an SQLite log by default, and clients that keep their connection open, in threads: each
registers its share of COUNT schemas, all new, under 50 subjects without a compatibility level; then COUNT look-ups by
id; then COUNT of a schema under its subject. Prints a JSON object: requests a second, and the server's CPU time for
each request in microseconds, which other work on the machine changes less.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.integration.registry_processes import Instance, schema

_SUBJECTS = 50
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
Call = Callable[[HTTPConnection, int], None]


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def ask(connection: HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    """Send a request, and return its answer."""
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    return json.loads(text)


def register(connection: HTTPConnection, number: int) -> None:
    """Register a new schema."""
    ask(connection, "POST", f"/subjects/s{number % _SUBJECTS}/versions", {"schema": schema(number)})


def look_up(connection: HTTPConnection, number: int) -> None:
    """Look a schema up by id."""
    ask(connection, "GET", f"/schemas/ids/{number + 1}")


def find(connection: HTTPConnection, number: int) -> None:
    """Look up which version of a subject a schema is."""
    ask(connection, "POST", f"/subjects/s{number % _SUBJECTS}", {"schema": schema(number)})


def measured(url: str, pid: int, call: Call, count: int, clients: int) -> dict[str, float]:
    """Make `count` calls."""

    def client(index: int) -> None:
        connection = HTTPConnection(url.removeprefix("http://"))
        for number in range(index, count, clients):
            call(connection, number)
        connection.close()

    cpu, began = cpu_s(pid), time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))
    seconds = time.perf_counter() - began
    return {"per_s": count / seconds, "server_cpu_us": (cpu_s(pid) - cpu) / count * 1e6}


def main(count: int, clients: int, log: str | None) -> None:
    """Measure, and tell."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        instance = stack.enter_context(Instance(log or f"sqlite:///{directory}/log.db", directory, "registry"))
        while " on http" not in instance.said:
            time.sleep(0.1)
        url = instance.said.split(" on ")[1].split()[0]
        found = {
            f"{name}_{figure}": value
            for name, call in (("registrations", register), ("schemas_by_id", look_up), ("look_ups", find))
            for figure, value in measured(url, instance.pid, call, count, clients).items()
        }
    print(json.dumps(found))


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        int(given[0]) if given else 2_000,
        int(given[1]) if len(given) > 1 else 8,
        given[2] if len(given) > 2 else None,
    )
