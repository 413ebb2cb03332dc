"""The workflow for pull requests, deploy/ci/proof.yml: its steps run here as the runner runs them."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from eventlib import open_log
from services import shop
from tests import forked
from tests.commands import NO_PLUGINS, said
from tests.integration.repository import SURCHARGE, Repository
from tests.integration.shop_log import fill_ended
from tests.saga.shop_runs import ROOT

WORKFLOW = ROOT / "deploy/ci/proof.yml"


class Ended(NamedTuple):
    """How each step has ended, by its name, and the comment that was made."""

    codes: dict[str, int]
    comment: str
    told: str


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Return a log with orders that have ended."""
    url = f"sqlite:///{tmp_path / 'backup.db'}"

    async def fill() -> None:
        async with open_log(url, shop) as opened:
            await fill_ended(opened)

    asyncio.run(fill())
    return url


def run_steps(repository: Repository, log: str) -> Ended:
    """Run the steps of the workflow; what installs packages or talks to GitHub is replaced."""
    tools = repository.directory.parent / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "pip").write_text("#!/bin/sh\n")
    (tools / "gh").write_text('#!/bin/sh\ncp comment.md ../comment.md; echo "$GH_TOKEN $3" > ../asked\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    context = {"${{ github.token }}": "secret", "${{ github.event.number }}": "7"}
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    base = {
        **os.environ,
        "PATH": path,
        "EVENTLIB_LOG": log,
        "GITHUB_BASE_REF": "main",
        "PYTEST_ADDOPTS": NO_PLUGINS,
    }
    codes, told = dict[str, int](), list[str]()
    for step in (each for each in job["steps"] if "run" in each):
        if any(codes.values()) and step.get("if") != "always()":
            continue
        own = {name: context[value] for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=repository.directory,
            env=base | own,
            capture_output=True,
            text=True,
            check=False,
        )
        codes[step.get("name", step["run"])] = done.returncode
        told += [done.stdout, done.stderr]
    assert (repository.directory.parent / "asked").read_text() == "secret 7\n"
    return Ended(codes, (repository.directory.parent / "comment.md").read_text(), "".join(told))


@pytest.mark.extended
def test_a_pull_request_is_proved_and_what_it_intends_is_declared(tmp_path: Path, log: str) -> None:
    (tmp_path / "shop").mkdir()
    repository = Repository(tmp_path / "shop")
    said("prove", "corpus", "--from", log, "--out", str(repository.directory / "tests/corpus"))
    settings = repository.directory / "pyproject.toml"
    settings.write_text(
        f'{settings.read_text()}simulation = "services.simulation.scenario:ShopScenario"\ncorpus = "tests/corpus"\n'
    )
    repository.commit("with a corpus")
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    repository.change(SURCHARGE)
    repository.commit("a surcharge")
    done = run_steps(repository, log)
    assert done.codes == {
        "pip install -r requirements.txt": 0,
        "Decide the corpus again": 1,
        "Show what the change would have done": 1,
        "Prove that what is in flight ends lawfully": 0,
        "Comment on the pull request": 0,
    }, done.told
    assert done.comment.startswith("## Differences: ")
    assert "ChargeRequested" in done.comment
    assert "Nothing is in flight." in done.comment
    command = [
        sys.executable,
        "-m",
        "eventlib",
        "prove",
        "diff",
        "origin/main..HEAD",
        "--accept",
        "a surcharge",
        "--log",
        log,
    ]
    forked.run(command, cwd=repository.directory, check=True, capture_output=True)
    repository.commit("declared")
    done = run_steps(repository, log)
    assert not any(done.codes.values()), done.told
    assert done.comment.startswith("## Only expected differences: ")
