"""As much of kustomize as deploy/kubernetes uses, so that its overlays can be looked at where there is no kubectl.

Paths of patches have to be there, targets have to be met, and files have to be listed: what is wrong raises.
"""

import copy
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]

_KNOWN = {"apiVersion", "kind", "namespace", "resources", "configMapGenerator", "images", "patches"}


def documents(file: Path) -> list[Resource]:
    """Return the documents of a file."""
    return [document for document in loaded(file.read_text(encoding="utf-8")) if document]


def loaded(text: str) -> list[Any]:
    """Return the documents in a text, as libyaml reads them: it takes a tenth of the time."""
    return [*yaml.load_all(text, Loader=yaml.CSafeLoader)]


def built(place: Path) -> list[Resource]:
    """Return what a directory with a kustomization comes to; generated names get no hash."""
    (kustomization,) = documents(place / "kustomization.yaml")
    assert kustomization.keys() <= _KNOWN, f"{place}: {kustomization.keys() - _KNOWN} is not known here"
    found = [copy.deepcopy(each) for name in kustomization["resources"] for each in _named(place, name)]
    for generator in kustomization.get("configMapGenerator", ()):
        _generate(found, generator)
    images = {image["name"]: image for image in kustomization.get("images", ())}
    for container in _containers(found):
        if image := images.get(container["image"].partition(":")[0]):
            container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"
    for patch in kustomization.get("patches", ()):
        targets = [each for each in found if _is_target(each, patch["target"])]
        assert targets, f"{place}: nothing is meant by {patch['target']}"
        for each in targets:
            for operation in loaded(patch["patch"])[0]:
                _apply(each, operation)
    for each in found:
        if "namespace" in kustomization and each["kind"] != "Namespace":
            each["metadata"]["namespace"] = kustomization["namespace"]
    return found


def _named(place: Path, name: str) -> list[Resource]:
    path = (place / name).resolve()
    assert path.is_dir() or path.parent == place, f"{place}: kustomize reads no file outside of a directory: {name}"
    return built(path) if path.is_dir() else documents(path)


def _generate(found: list[Resource], generator: Mapping[str, Any]) -> None:
    data = dict(literal.split("=", 1) for literal in generator["literals"])
    if generator.get("behavior") == "merge":
        (known,) = (each for each in found if each["metadata"]["name"] == generator["name"])
        known["data"] |= data
        return
    metadata = {"name": generator["name"], **generator.get("options", {})}
    found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _containers(found: Iterable[Resource]) -> Iterable[Resource]:
    for each in found:
        spec = each.get("spec", {})
        pod = spec.get("jobTemplate", {}).get("spec", spec).get("template", {}).get("spec", {})
        if isinstance(pod, dict):
            yield from (*pod.get("containers", ()), *pod.get("initContainers", ()))


def _is_target(resource: Resource, target: Mapping[str, str]) -> bool:
    labels = resource["metadata"].get("labels", {})
    key, _, value = target.get("labelSelector", "").partition("=")
    return (
        resource["kind"] == target["kind"]
        and re.fullmatch(target.get("name", ".*"), resource["metadata"]["name"]) is not None
        and (not key or labels.get(key) == value)
    )


def _apply(resource: Resource, operation: Mapping[str, Any]) -> None:
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    at: Any = resource
    for part in way:
        at = at[int(part)] if isinstance(at, list) else at[part]
    if last == "-":
        assert operation["op"] == "add", operation
        at.append(operation["value"])
        return
    key: Any = int(last) if isinstance(at, list) else last
    assert operation["op"] == "add" or (key in at if isinstance(at, dict) else key < len(at)), operation
    if operation["op"] == "remove":
        del at[key]
    else:
        at[key] = operation["value"]
