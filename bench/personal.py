"""What five personal fields cost a shop: `python -m bench.personal [ORDERS] [ROUNDS]` prints CPU seconds as JSON.

Three shops take turns, each in a process of its own: as it is; with a name, a street, a city, an email and a phone number in
plain text on `OrderSubmitted`, `OrderPlaced` and the state `Order`; and with these as personal fields. A shop is a copy of
`services` to which the fields are added, so that the shop itself keeps its contracts.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from eventlib.personal.secret_file import create_secret

ROOT = Path(__file__).parents[1]
NAMES = ("name", "street", "city", "email", "phone")
_KINDS = {"plain": "str", "personal": 'Annotated[str, Personal(subject="customer_id")]'}


def shop_with(kind: str, directory: Path) -> Path:
    """Write a copy of the shop, with the fields unless the kind is `none`, and what runs orders through it."""
    place = directory / kind
    shutil.copytree(ROOT / "services", place / "services", ignore=shutil.ignore_patterns("__pycache__"))
    sagas = (ROOT / "tests" / "performance" / "sagas.py").read_text()
    if kind != "none":
        declared = "".join(f'    {name}: {_KINDS[kind]} = ""\n' for name in NAMES)
        events, state, evolve, decider = (
            place / "services" / "order" / f"{name}.py" for name in ("events", "state", "evolve", "decider")
        )
        _change(events, "    lines: Annotated[OrderLines, AfterValidator(_numbered_once)]\n", after=declared)
        _change(events, "    amount_cents: AmountCents\n    lines: OrderLines\n", after=declared)
        _change(state, "    refunded_cents: int = 0\n", after=declared)
        for path in (events, state):
            _change(path, "\n\nfrom ", after="typing import Annotated\nfrom eventlib.personal import Personal\nfrom ")
        _change(evolve, "        customer_id=placed.customer_id,\n", after=_passed("placed", 8))
        _change(decider, "        customer_id=asked.customer_id,\n", after=_passed("asked", 8))
        values = "".join(f'        {name}=f"{name} of customer {{n % 997}}, as long as they are",\n' for name in NAMES)
        line = '        customer_id=f"customer-{n % 997}",\n'
        assert line in sagas
        sagas = sagas.replace(line, line + values)
    (place / "run_sagas.py").write_text(sagas)
    return place


def _passed(source: str, indent: int) -> str:
    return "".join(f"{' ' * indent}{name}={source}.{name},\n" for name in NAMES)


def _change(path: Path, line: str, *, after: str) -> None:
    text = path.read_text()
    assert line in text, f"{path.name} has no {line!r}"
    path.write_text(text.replace(line, line + after, 1))


def measured(place: Path, number: int, orders: int) -> dict[str, float]:
    """Run orders through a shop, and return what they cost."""
    log = place / f"run-{number}" / "log.db"
    log.parent.mkdir()
    environment = {
        **os.environ,
        "EVENTLIB_PERSONAL_MASTER": f"file:{place.parent / 'master.key'}",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "run_sagas.py", str(log), str(orders), "200"]
    done = subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True, text=True)
    return {name: values[0] for name, values in json.loads(done.stdout).items()}


def main(orders: int, rounds: int) -> None:
    """Measure the shops in turns, and print what 1,000 orders take (CPU seconds): medians, and the least beside a load."""
    with tempfile.TemporaryDirectory() as directory:
        create_secret(Path(directory) / "master.key")
        shops = {kind: shop_with(kind, Path(directory)) for kind in ("none", "plain", "personal")}
        found = {kind: list[float]() for kind in shops}
        for number in range(rounds):
            for kind, place in shops.items():
                found[kind].append(measured(place, number, orders)["cpu_s_per_1000"])
    for name, of in (("median", median), ("least", min)):
        cost = {kind: round(of(each), 3) for kind, each in found.items()}
        ratios = {f"against_{kind}": round(cost["personal"] / cost[kind], 3) for kind in ("none", "plain")}
        print(json.dumps({name: cost, **ratios}))


if __name__ == "__main__":
    main(*(int(each) for each in (*sys.argv[1:], "1000", "5")[:2]))
