"""Proves what is in flight under the code of a revision of the application's repository."""

import asyncio
import sys
from contextlib import redirect_stdout
from dataclasses import replace

from eventlib.model.project import load_simulation
from eventlib.opening import open_log
from eventlib.proof.decided import Code
from eventlib.proof.elsewhere import refuse_other_code
from eventlib.proof.proving import InFlight, InFlightProof, ProofBounds
from eventlib.proof.revisions import Repository
from eventlib.simulation.scenario import Scenario, scenario_class
from eventlib.simulation.stage import Stage


def prove_in_flight(url: str, stage: Stage, scenario: type[Scenario], bounds: ProofBounds) -> InFlightProof:
    """Prove what is in flight on a log under the code of this process. No event loop may run in it, and no thread."""

    async def read() -> InFlight:
        async with open_log(url, stage.declared, read_only=True) as log:
            return await InFlight.read(log, stage)

    return asyncio.run(read()).prove(scenario, bounds)


def prove_revision(url: str, code: Code, scenario: str | None, bounds: ProofBounds) -> InFlightProof:
    """Prove what is in flight on a log under a revision's code and scenario; `code` has the repository's directory.

    Raises: WiringError for a revision that there is not, or code that cannot be imported.
    """
    with Repository(code.directory).code_of(code.name) as directory:
        return replace(code, directory=directory).run(prove_code, url, scenario, bounds)


def prove_code(code: Code, url: str, scenario: str | None, bounds: ProofBounds) -> InFlightProof:
    """Prove what is in flight on a log under a code that this process imports. No event loop may run in it, and no thread."""
    with redirect_stdout(sys.stderr):
        stage = Stage(code.load())
        case = scenario_class(load_simulation(scenario, code.directory))
        refuse_other_code(code.directory, case.__module__)
        return prove_in_flight(url, stage, case, bounds)
