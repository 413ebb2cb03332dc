"""What is exported follows from the classes, and each form's own tool takes it."""

import gzip
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import avro.schema
import fastavro
import pytest
from jsonschema import Draft7Validator

from eventlib import Choreography, Event
from eventlib.cli import run
from eventlib.contracts.exporting import exported
from eventlib.errors import WiringError
from eventlib.external import Json
from eventlib.registry.parsing import SchemaType, parse
from services import shop
from tests.golden.contracts.third import post

GOLDEN = Path(__file__).parent.parent / "golden"
FORMS = ("asyncapi", "avsc", "jsonschema", "proto", "spark")


@pytest.mark.parametrize("form", FORMS)
def test_the_post_is_exported_as_it_was(form: str) -> None:
    """Written once by `eventlib --app tests.golden.contracts.third:post export FORM --out tests/golden/exports`."""
    files = exported(post, form)
    assert len(files) == (1 if form == "asyncapi" else 4)
    for name, text in files.items():
        assert text == (GOLDEN / "exports" / name).read_text(), name


@pytest.fixture(scope="module")
def official() -> Draft7Validator:
    """The schema of AsyncAPI 3.0.0 as its authors publish it (npm @asyncapi/specs 6.11.1, Apache-2.0)."""
    return Draft7Validator(json.loads(gzip.decompress((GOLDEN / "asyncapi-3.0.0.json.gz").read_bytes())))


def document(choreography: Choreography) -> dict[str, Any]:
    (text,) = exported(choreography, "asyncapi").values()
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("choreography", [shop, post], ids=["shop", "post"])
def test_asyncapi_is_valid_by_the_official_schema(official: Draft7Validator, choreography: Choreography) -> None:
    found = document(choreography)
    assert [error.message for error in official.iter_errors(found)] == []
    assert len(found["components"]["messages"]) == len(choreography.events)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("channels", "parcels", "bindings", "kafka", "partitions"), "eight"),
        (("operations", "post_send_parcels", "action"), "shout"),
        (("components", "messages", "ParcelAccepted", "bindings", "kafka", "bindingVersion"), "9"),
        (("info",), {"title": "post"}),
    ],
)
def test_the_official_schema_would_find_a_mistake(official: Draft7Validator, path: tuple[str, ...], value: Any) -> None:
    found = deepcopy(document(post))
    part = found
    for name in path[:-1]:
        part = part[name]
    assert path[-1] in part
    part[path[-1]] = value
    assert not official.is_valid(found)


def test_every_reference_of_asyncapi_leads_somewhere() -> None:
    found = document(shop)

    def references(part: Any) -> list[str]:
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        own = [part["$ref"]] if isinstance(part, dict) and isinstance(part.get("$ref"), str) else []
        return own + [each for value in inner for each in references(value)]

    every = references({name: found[name] for name in ("channels", "operations")})
    assert len(every) > 100
    for reference in every:
        part: Any = found
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]


def test_its_version_changes_with_what_it_says() -> None:
    class ExternalStates(Event, topic="told", key="who"):
        who: str

    small = [Choreography("small", [], facts=facts) for facts in ([ExternalStates], [ExternalStates], [])]
    versions = [document(each)["info"]["version"] for each in small]
    assert versions[0] == versions[1] != versions[2]


@pytest.mark.parametrize("choreography", [shop, post], ids=["shop", "post"])
def test_avro_json_schema_and_protobuf_are_parsed_by_their_own_tools(choreography: Choreography) -> None:
    for text in exported(choreography, "avsc").values():
        fastavro.parse_schema(json.loads(text))
        avro.schema.parse(text)
    for text in exported(choreography, "jsonschema").values():
        Draft7Validator.check_schema(json.loads(text))
    for text in exported(choreography, "proto").values():
        parse(SchemaType.PROTOBUF, text)


def test_what_others_write_is_named_and_not_promised() -> None:
    class Clicked(Event, topic="clicks", key=None, external=Json()):
        page: str

    others = Choreography("others", [], facts=[Clicked])
    assert document(others)["components"]["messages"]["Clicked"]["contentType"] == "application/octet-stream"
    assert exported(others, "avsc") == {}


def test_two_topics_with_one_name_in_the_document_are_refused() -> None:
    class One(Event, topic="a.b", key=None):
        pass

    class Two(Event, topic="a_b", key=None):
        pass

    with pytest.raises(WiringError, match=r"two of the topics are one when '\.' is written '_': a\.b, a_b"):
        exported(Choreography("two", [], facts=[One, Two]), "asyncapi")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = ["--app", "tests.golden.contracts.third:post"]
    assert run([*app, "export", "avsc", "ParcelAccepted"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 2
    assert run([*app, "export", "proto", "--out", str(tmp_path / "made")]) == 0
    assert "4 files" in capsys.readouterr().out
    assert len(list((tmp_path / "made").glob("*.proto"))) == 4
    assert run([*app, "export", "spark", "--json"]) == 0
    assert all(json.loads(line)["file"].endswith(".ddl") for line in capsys.readouterr().out.splitlines())
    assert run([*app, "export", "avsc", "Nothing"]) == 1
    assert "there is no Nothing to export as avsc" in capsys.readouterr().err
    assert run([*app, "export", "thrift"]) == 2
