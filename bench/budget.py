"""What a saga may cost: `python -m bench.budget [--write]` fails when it costs 3 % more than the figure kept.

It counts calls of functions: that count is the same on any machine, to a part in ten thousand where
many orders are open. Where few are, it is up to 2 % more, since what waits for their end looks as often as time passes: the
least of three counts is taken. Let nothing else run: beside ten busy processes it was 2 to 5 % more.
"""

import asyncio
import cProfile
import json
import pstats
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from bench import sagas

KEPT = Path(__file__).with_suffix(".json")
FEW, MANY = 200, 600
"""Orders that fill the caches, and orders that are counted."""
LIGHT, TIMES = 16, 3
MOST = 1.03
_COUNT = "from bench import budget; budget.tell()"


def tell() -> None:
    """Print the calls that one saga takes when many orders are open at once, and when few are."""
    counts = {load: min(asyncio.run(_calls(n)) for _ in range(TIMES)) for load, n in (("bulk", MANY), ("light", LIGHT))}
    print(json.dumps({f"{load}, Python {sys.version_info[0]}.{sys.version_info[1]}": n for load, n in counts.items()}))


async def _calls(open_at_once: int) -> int:
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as directory:
        async with AsyncExitStack() as stack:
            log, runtime, _ = await sagas.opened(stack, Path(directory) / "log.db")
            await sagas.run_orders(log, runtime, 0, FEW, open_at_once)
            profile.enable()
            await sagas.run_orders(log, runtime, FEW, FEW + MANY, open_at_once)
            profile.disable()
    total: float = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]  # typeshed has not all of them
    return round(total / MANY)


def main(*, write: bool) -> int:
    """Count, and compare with the figures that are kept, or keep these."""
    told = subprocess.run([sys.executable, "-c", _COUNT], check=True, capture_output=True, text=True)
    counts: dict[str, int] = json.loads(told.stdout)
    kept: dict[str, int] = json.loads(KEPT.read_text())
    if write:
        KEPT.write_text(json.dumps(kept | counts, indent=2, sort_keys=True) + "\n")
    grown = False
    for name, count in counts.items():
        before = kept.get(name, count)
        print(f"{name}: {count:,} calls for a saga, {count / before - 1:+.1%} against the {before:,} that are kept")
        grown |= count > MOST * before
    if grown and not write:
        print("a saga costs over 3 % more: find out why, or keep the new figure with --write and say what it is for")
    return int(grown and not write)


if __name__ == "__main__":
    sys.exit(main(write="--write" in sys.argv[1:]))
