"""The shop's code in a repository, and changes that make it decide otherwise."""

import shutil
import subprocess
from pathlib import Path

from tests.saga.shop_runs import ROOT

DECIDER, ORDERS = "services/payment/decider.py", "services/order/evolve.py"
SURCHARGE = (
    "amount_cents=stock.amount_cents,",
    'amount_cents=stock.amount_cents + (495 if stock.country == "France" else 0),',
)
RAISES = (
    "    if payment.stage is not Stage.NEW:\n        return []\n",
    '    if payment.stage is not Stage.NEW:\n        return []\n    if stock.amount_cents > 1_000:\n        raise KeyError("MT")\n',
)
REFUNDS = (
    "return [_refund(payment, money.order_id)] if payment.called_off and is_held else []",
    "return [_refund(payment, money.order_id)]",
)
FOR_A_REASON = ("reason=payment.called_off,", 'reason=payment.called_off or "a change",')
WAIVES = ("if payment.stage is not Stage.NEW:", "if payment.stage is not Stage.NEW or stock.amount_cents > 1_000:")


class Repository:
    """A repository of the shop's code."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        shutil.copytree(ROOT / "services", directory / "services")  # with what is compiled of it: that takes a second
        (directory / "pyproject.toml").write_text('[tool.eventlib]\napp = "services:shop"\n')
        self.git("init", "--quiet")
        (directory / ".git" / "info" / "exclude").write_text("__pycache__/\n")
        self.commit("recorded")

    def git(self, *arguments: str) -> None:
        own = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *own, *arguments], cwd=self.directory, check=True, capture_output=True)

    def change(self, *changes: tuple[str, str], file: str = DECIDER) -> None:
        path = self.directory / file
        text = path.read_text()
        for before, after in changes:
            assert text.count(before) == 1, before
            text = text.replace(before, after)
        path.write_text(text)

    def commit(self, tag: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", tag)
        self.git("tag", tag.replace(" ", "-"))

    def line(self, text: str, file: str = DECIDER) -> str:
        """Return the place of a line, as reports name it."""
        numbers = [n for n, line in enumerate((self.directory / file).read_text().splitlines(), 1) if text in line]
        assert len(numbers) == 1
        return f"{file}:{numbers[0]}"
