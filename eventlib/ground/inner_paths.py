"""Paths in manifests, which lead nowhere but below the directory of their manifest."""

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator


def _inside(name: str) -> str:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise ValueError(f"{name[:80]!r} is no path below the manifest's own directory")
    return name


def _beside(name: str) -> str:
    if len(PurePosixPath(_inside(name)).parts) != 1:
        raise ValueError(f"{name[:80]!r} is no name of a file beside its manifest")
    return name


InnerPath = Annotated[str, AfterValidator(_inside)]
"""A path in a manifest that leads to what is below its directory, and nowhere else."""
FileBeside = Annotated[str, AfterValidator(_beside)]
"""The name of a file in the directory of its manifest."""
