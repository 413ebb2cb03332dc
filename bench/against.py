"""This working copy against an older commit: `python -m bench.against [COMMIT] [ROUNDS] [PYTHON]`.

Both run the same orders in turns, each time in a process of its own, with the same interpreter (default: this one); medians are
told. Each brings its own code and its own services; the commit is checked out below build/.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASE = "b0c4a11"
LOADS = {"bulk": (6_000, 2_000), "light load": (1_500, 16)}
"""Orders, and how many are open at once."""
_RUN = """
import asyncio, json, pathlib, sys
from bench import sagas
try:
    from eventlib.runtime.runtime import collect_garbage_seldom as seldom
except ImportError:
    from eventlib.runtime.garbage import collect_garbage_seldom as seldom
path, orders, sagas.OPEN = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
async def measured():
    from contextlib import AsyncExitStack
    async with AsyncExitStack() as stack:
        log, runtime, *_ = await sagas.opened(stack, path)
        cpu = sagas.cpu_s()
        for start in range(0, orders, sagas.OPEN):
            end = min(start + sagas.OPEN, orders)
            await log.publish_many([sagas.order(n) for n in range(start, end)])
            await runtime.idle()
        return (sagas.cpu_s() - cpu) / orders * 1_000
seldom()
print(json.dumps(asyncio.run(measured())))
"""


def checked_out(commit: str) -> Path:
    """Return a directory with the files of a commit."""
    place = ROOT / "build" / "against" / commit
    if not place.exists():
        place.mkdir(parents=True)
        files = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x"], cwd=place, input=files, check=True)
    return place


def cpu_ms(tree: Path, python: str, orders: int, open_at_once: int) -> float:
    """Return the CPU time of one saga (ms)."""
    with tempfile.TemporaryDirectory() as directory:
        command = [python, "-c", _RUN, f"{directory}/log.db", str(orders), str(open_at_once)]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        told = subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True, text=True).stdout
    return float(json.loads(told))


def main(commit: str, rounds: int, python: str) -> None:
    """Measure, and tell."""
    trees = {commit: checked_out(commit), "here": ROOT}
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(rounds):
        for load, sizes in LOADS.items():
            for name, tree in trees.items():
                found[load, name].append(cpu_ms(tree, python, *sizes))
    version = subprocess.run([python, "-VV"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"CPU ms for a saga, medians of {rounds}, in turns, with {version}")
    for load in LOADS:
        before, now = (statistics.median(found[load, name]) for name in trees)
        spread = f"{min(found[load, 'here']):.3f} to {max(found[load, 'here']):.3f}"
        print(f"{load}: {before:.3f} at {commit}, {now:.3f} here ({spread}): {before / now:.2f} times")


if __name__ == "__main__":
    commit, rounds, python = [*sys.argv[1:], *[BASE, "5", sys.executable][len(sys.argv) - 1 :]]
    main(commit, int(rounds), python)
