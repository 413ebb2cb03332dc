"""Modules that a command loads at its start, and a service's import: heavy packages by name, the library's own by number.

A busy machine changes neither, as it would change a time. They may only go down.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from eventlib.cli.app import PANELS
from tests.imported import COLLECTED

HEAVY = (
    "asyncio",
    "cryptography",
    "fastapi",
    "grpc",
    "httpx",
    "hypothesis",
    "jinja2",
    "mcp",
    "opentelemetry",
    "pyarrow",
    "pydantic",
    "pydantic_settings",
    "sqlite3",
    "starlette",
    "tenacity",
    "uvicorn",
    "yaml",
)
"""Packages that take some 5 ms or more to import, and that most commands and services can do without."""

HEAVY_FOR_TESTS = {
    "aiohttp",
    "boto3",
    "botocore",
    "confluent_kafka",
    "deltalake",
    "duckdb",
    "faust",
    "matplotlib",
    "mcp",
    "moto",
    "openapi_spec_validator",
    "pandas",
    "playwright",
    "polars",
    "pyiceberg",
    "schemathesis",
}
"""Packages that few tests need: where one does, a function or a fixture imports it."""

_EACH = """
import json, os, sys
from eventlib.cli.app import PANELS
import eventlib.operations.status
heavy, basis = json.loads(sys.argv[1]), set(sys.modules)
found = {"": sorted(basis & {*heavy})}
for commands in PANELS.values():
    for name, command in commands.items():
        ours, theirs = os.pipe()
        if not os.fork():
            command.load(name)
            os.write(theirs, json.dumps(sorted(({*heavy} & {*sys.modules}) - basis)).encode())
            os._exit(0)
        os.close(theirs)
        with open(ours, encoding="utf-8") as answer:
            found[name] = json.load(answer)
        os.wait()
print(json.dumps(found))
"""
"""Prints what each command loads beyond the basis: one process for each, forked when it has loaded the basis."""

_IMPORTED = """
import json, sys
__import__(sys.argv[2])
heavy = [name for name in json.loads(sys.argv[1]) if name in sys.modules]
print(json.dumps([heavy, sum(name.startswith("eventlib") for name in sys.modules)]))
"""

BASIS = ["asyncio", "pydantic", "pydantic_settings", "sqlite3", "tenacity"]
"""What a command loads that reads a log and what its services have noted there."""

BEYOND = {
    "export": ["yaml"],
    "simulate": ["hypothesis"],
}
"""What a command loads beyond that before it runs, every other one nothing."""


def _printed(program: str, *arguments: str) -> Any:
    called = [sys.executable, "-c", program, json.dumps(HEAVY), *arguments]
    return json.loads(subprocess.run(called, check=True, capture_output=True, text=True).stdout)


def test_a_command_loads_no_more_for_its_help_than_it_did() -> None:
    commands = [name for panel in PANELS.values() for name in panel]
    assert _printed(_EACH) == {"": BASIS} | {name: BEYOND.get(name, []) for name in commands}


@pytest.mark.parametrize(
    ("module", "heavy", "most"),
    [
        ("eventlib", [], 3),
        ("services.stock", ["pydantic"], 47),
        ("examples.loyalty", ["pydantic"], 47),
        ("eventlib.cli.app", [], 11),
    ],
)
def test_an_import_loads_no_more_than_it_did(module: str, heavy: list[str], most: int) -> None:
    loaded, count = _printed(_IMPORTED, module)
    assert loaded == heavy
    assert count <= most


def test_the_collection_of_tests_imports_nothing_that_few_of_them_need(pytestconfig: pytest.Config) -> None:
    collected = pytestconfig.stash[COLLECTED]
    assert not HEAVY_FOR_TESTS & collected
