"""Strimzi's own classes read what deploy/kubernetes says to Strimzi, and know every field of it.

Its CRDs are in no package that can be pinned; its classes, of which the CRDs are made, are on Maven Central. They keep
what they do not know, so each value is looked up in the object that was made of it: a field without a property of that
name is nobody's, and a value of which nothing is left was not understood.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import (
    GatewayParameters,
    JavaGateway,
    launch_gateway,
)

from eventlib.devtools.kafka.jars import JarSet
from eventlib.devtools.kafka.java import find_java
from tests.unit.kustomized import Resource, built

STRIMZI = JarSet("Strimzi's resources", "strimzi-api", "api", Path(__file__).with_name("strimzi.lock"))
OVERLAYS = Path(__file__).parents[2] / "deploy" / "kubernetes" / "overlays"
API = "kafka.strimzi.io/v1"
MODEL = "io.strimzi.api.kafka.model"
CLASSES = {
    "Kafka": f"{MODEL}.kafka.Kafka",
    "KafkaNodePool": f"{MODEL}.nodepool.KafkaNodePool",
    "KafkaTopic": f"{MODEL}.topic.KafkaTopic",
    "KafkaUser": f"{MODEL}.user.KafkaUser",
}


class Classes:
    """Strimzi's classes in a Java of their own."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._java = gateway.jvm
        self._mapper = self._java.com.fasterxml.jackson.databind.ObjectMapper()
        self._accessors = dict[str, dict[str, Any]]()

    def misfits(self, resource: Resource) -> list[str]:
        """Return the paths of what is not understood."""
        kind = self._java.java.lang.Class.forName(CLASSES[resource["kind"]])
        made = self._mapper.readValue(json.dumps(resource), kind)
        return [*self._misfits(resource, made, resource["kind"])]

    def _misfits(self, value: Any, made: Any, path: str) -> Iterator[str]:
        if made is None:
            yield path
        elif isinstance(value, list):
            for number, each in enumerate(value):
                yield from self._misfits(each, made[number], f"{path}[{number}]")
        elif isinstance(value, dict) and not isinstance(made, Mapping) and not _is_map(made):
            accessors = self._of(made.getClass())
            for name, each in value.items():
                if name not in accessors:
                    yield f"{path}.{name}"
                else:
                    yield from self._misfits(each, accessors[name].getValue(made), f"{path}.{name}")

    def _of(self, kind: Any) -> dict[str, Any]:
        name = kind.getName()
        if name not in self._accessors:
            described = self._mapper.getSerializationConfig().introspect(self._mapper.constructType(kind))
            self._accessors[name] = {each.getName(): each.getAccessor() for each in described.findProperties()}
        return self._accessors[name]


def _is_map(made: Any) -> bool:
    return hasattr(made, "items") and not hasattr(made, "getClass")


pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def strimzi() -> Iterator[Classes]:
    java = find_java()
    jars = STRIMZI.fetched(java, STRIMZI.default_place())
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port, process = launch_gateway(
        classpath=f"{jars}/*", jarpath=str(py4j), java_path=str(java.executable), die_on_exit=True, return_proc=True,
        javaopts=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield Classes(gateway)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(60)


def test_strimzi_understands_all_that_it_is_told(strimzi: Classes) -> None:
    production, development = (
        [each for each in built(OVERLAYS / overlay) if each["apiVersion"] == API]
        for overlay in ("production", "development")
    )
    assert {each["kind"] for each in production} == CLASSES.keys()
    theirs = [*production, *(each for each in development if each not in production)]
    for resource in theirs:
        assert strimzi.misfits(resource) == [], resource["metadata"]["name"]


def test_what_strimzi_does_not_know_is_found(strimzi: Classes) -> None:
    every = {each["kind"]: each for each in built(OVERLAYS / "production")}
    user, kafka = every["KafkaUser"], every["Kafka"]
    user["spec"]["authorization"]["acls"][0]["resource"]["nme"] = "orders"
    kafka["spec"]["kafka"]["listeners"][0]["tsl"] = True
    assert strimzi.misfits(user) == ["KafkaUser.spec.authorization.acls[0].resource.nme"]
    assert strimzi.misfits(kafka) == ["Kafka.spec.kafka.listeners[0].tsl"]
