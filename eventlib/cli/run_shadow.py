"""`eventlib run --shadow-first`: the proof beside the code that runs, before a process owns anything."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import refuse_missing
from eventlib.cli.diff import accept_differences, print_verdict
from eventlib.errors import RetryableError, WiringError
from eventlib.ground.startup import Startup
from eventlib.model.choreography import Choreography
from eventlib.model.project import nearest
from eventlib.opening import open_log
from eventlib.proof import Expected
from eventlib.proof.beside import Beside, LiveProof, as_json, unproved
from eventlib.telemetry.logs import tell

_DIFFERS = 3
_SHOWN = 10
_STEP = "the proof of this code beside the one that runs"


@dataclass(frozen=True, slots=True)
class ShadowFirst:
    """How long (seconds) this code decides beside the one that runs; with `accept`, what differs is declared with that reason."""

    url: str
    span_s: float
    accept: str | None = None
    is_json: bool = False

    async def __call__(self, choreography: Choreography, services: Sequence[str], startup: Startup) -> None:
        """Prove this code; it begins again while the log is away. Raises: typer.Exit where it is not proved; terminal errors."""
        try:
            refuse_missing(self.url)
        except WiringError:
            tell("Nothing to prove: the log does not exist yet.")
            return
        startup.begin(_STEP)
        startup.on_change(startup.lacks)
        try:
            while True:
                try:
                    proof = await self._proof(choreography, services)
                except RetryableError as error:
                    await asyncio.sleep(startup.failed(_STEP, error))
                else:
                    break
        finally:
            startup.drop(_STEP)
            startup.on_change(startup.lacks)
        if proof is not None:
            self._conclude(proof)

    async def _proof(self, choreography: Choreography, services: Sequence[str]) -> LiveProof | None:
        expected = Expected.read(nearest(Path.cwd())[0])
        async with open_log(self.url, choreography, read_only=True) as log:
            others = await unproved(log, [choreography.service(name) for name in services])
            if not others:
                tell("Nothing to prove: no other code runs these services here, or this code decides here already.")
                return None
            async with Beside(log, others, expected, tell) as beside:
                names = ", ".join(service.name for service in others)
                tell(
                    f"Deciding beside {names} on {self.url} for {self.span_s:g} s: nothing is written, no effect runs."
                )
                return await beside.prove(self.span_s)

    def _conclude(self, proof: LiveProof) -> None:
        if self.is_json:
            output.print_json([as_json(proof)])
        else:
            print_verdict(proof, proof.found, _SHOWN)
        if self.accept is not None and proof.found.unexpected:
            accept_differences(nearest(Path.cwd())[0], proof.found, self.accept)
        if proof.objections:
            raise typer.Exit(_DIFFERS)
