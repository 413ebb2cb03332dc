"""Each act of operators, in every front end: one form of what it would come to, refused when that has changed, and recorded."""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi import FastAPI

from eventlib import EventLog, open_log
from eventlib.admin.api import create_admin
from eventlib.http.gate import rules_of
from eventlib.identity.principal import Role
from eventlib.operations.act import Act, Desk
from eventlib.operations.acts import acts
from eventlib.operations.clock_reset import ClockReset
from eventlib.operations.every_act import ACTS
from eventlib.operations.parked_acts import Discard, DiscardAll, Edit, Retry, RetryAll
from eventlib.operations.pause_acts import Pause, Resume
from eventlib.operations.reset_acts import AcceptLoss, Reset
from eventlib.operations.sending import Send
from eventlib.operations.skip import Skip
from eventlib.runtime.records import POSITION_KEY, Positions
from tests.apps.small_shop import Ordered, make_shop, settle
from tests.commands import ended
from tests.integration.reopening import everything
from tests.integration.test_parked_previews import contents

SHOP = make_shop(set())
HEADERS = {"Authorization": f"Bearer {'x' * 32}"}
ONE = {"service": "orders", "decider": "order", "key": "a"}


class Case(NamedTuple):
    """An act on the log of `parked`: its fields, how `eventlib acts` names it, and its command, if it has one.

    `noted` is what a task has noted by then about its positions.
    """

    act: type[Act[Any, Any]]
    fields: Mapping[str, Any]
    what: str
    command: Sequence[str] = ()
    noted: Mapping[str, Any] = {}


CASES = [
    Case(RetryAll, {"decider": ["order"]}, "retry", ["parked", "retry", "--all", "--decider", "order", "--wait", "0"]),
    Case(DiscardAll, {"decider": ["order"]}, "discard"),
    Case(Retry, ONE, "retry"),
    Case(Edit, {**ONE, "set": {"cents": 5}}, "edit", ["parked", "edit", "order", "a", "--set", "cents=5"]),
    Case(Discard, ONE, "discard", ["parked", "discard", "order", "a"]),
    Case(Pause, {"service": "orders", "key": "a"}, "pause", ["pause", "orders", "--key", "a"]),
    Case(Resume, {"service": "orders", "key": "held"}, "resume", ["resume", "orders", "--key", "held"]),
    Case(Reset, {"service": "orders", "to": "latest"}, "reset", ["reset", "orders", "--to", "latest", "--yes"]),
    Case(Skip, {"service": "orders", "event_id": "LATE"}, "skip", ["reset", "orders", "--skip", "LATE"]),
    Case(
        AcceptLoss,
        {"service": "orders"},
        "reset",
        ["reset", "orders", "--accept-loss"],
        {"topics": '{"lost": {"orders.requests": "offsets 0 to 3 were dropped"}}'},
    ),
    Case(ClockReset, {"service": "orders"}, "clock", ["reset-clock", "orders", "--yes"], {"at_ms": 1 << 42}),
    Case(Send, {"event_type": "Ordered", "data": {"order_id": "n", "cents": 1}}, "send"),
]
ELSEWHERE = {  # what they need is made by the tests that are named
    "Rerun": "tests/integration/test_admin_reruns.py",
    "Switch": "tests/integration/test_admin_reruns.py",
    "Drop": "tests/integration/test_admin_reruns.py",
    "Forget": "tests/integration/test_personal_http.py",
}


@asynccontextmanager
async def parked(directory: Path, noted: Mapping[str, Any] | None = None) -> AsyncIterator[tuple[EventLog, str]]:
    """A log with parked keys, a paused key and an input that is not handled yet, whose id is yielded, too."""
    url = f"sqlite:///{directory}/log.db"
    async with open_log(url, make_shop({"a", "b"})) as log:
        await settle(log)
        await Pause(service="orders", key="held", reason="a call").perform(Desk(log, "os:eve"))
        for order_id in ("a", "a", "b", "held"):
            await log.publish(Ordered(order_id=order_id, cents=1))
        await settle(log)
        late = await log.publish(Ordered(order_id="late", cents=1))
        if noted:
            changes = await everything(log, "orders.changelog")
            newest = next(each for each in reversed(changes) if each.key == POSITION_KEY.encode())
            positions = replace(log.codec.decode(Positions, newest.value or b""), **noted)
            await log.port.append([newest.replace(offset=-1, value=log.codec.encode(positions))])
    async with open_log(url, SHOP) as log:
        (record,) = await log.port.read(late.topic, late.partition, late.offset, 1)
        yield log, str(record.event_id)


def filled(value: Any, late: str) -> Any:
    """Return a case's value, with the id of the late input in its place."""
    return json.loads(json.dumps(value).replace("LATE", late))


class FrontEnd(NamedTuple):
    """One act on one log, by its route and its command."""

    case: Case
    log: EventLog
    client: httpx.AsyncClient
    late: str

    async def over_http(self, **shared: object) -> httpx.Response:
        """Ask for the act over HTTP."""
        act, fields = self.case.act, filled(self.case.fields, self.late)
        place, chosen = re.findall(r"{(\w+)", act.path), {name: fields[name] for name in act.query if name in fields}
        body = {name: value for name, value in fields.items() if name not in {*place, *chosen}}
        path = re.sub(r"{(\w+)[^}]*}", lambda found: str(fields[found[1]]), act.path)
        return await self.client.post(path, params=chosen, json=body | shared)

    def by_command(self, *options: str) -> tuple[int, list[Any], str]:
        """Give the command, and return its exit code, its lines of JSON and its errors."""
        where = ["--json", "--app", "tests.contract.test_acts:SHOP", "--log", self.log.port.url]
        done = ended(*filled(self.case.command, self.late), *options, *where)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@asynccontextmanager
async def fronted(case: Case, directory: Path) -> AsyncIterator[FrontEnd]:
    """An act on a log of its own."""
    async with parked(directory, case.noted) as (log, late):
        transport = httpx.ASGITransport(create_admin(log, "x" * 32, state_dir=str(directory)))
        async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=HEADERS) as client:
            yield FrontEnd(case, log, client, late)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.act.__name__)
async def test_a_dry_run_is_the_same_everywhere_and_writes_nothing(case: Case, tmp_path: Path) -> None:
    async with fronted(case, tmp_path) as front:
        before = await contents(front.log)
        seen = await case.act.of({**filled(case.fields, front.late), "dry_run": True}).perform(Desk(front.log, ""))
        answer = await front.over_http(dry_run=True)
        assert answer.status_code == case.act.status
        assert answer.json() == json.loads(json.dumps(seen.json(personal=True)))
        assert seen.token == answer.json()["as_previewed"]
        if case.command:
            code, lines, _ = front.by_command("--dry-run")
            assert (code, lines) == (0, json.loads(json.dumps(seen.lines())))
        assert await contents(front.log) == before


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.act.__name__)
async def test_what_was_not_previewed_so_is_refused_everywhere(case: Case, tmp_path: Path) -> None:
    async with fronted(case, tmp_path) as front:
        before = await contents(front.log)
        refused = await front.over_http(as_previewed="0123456789ab", reason="a test")
        assert (refused.status_code, "nothing was done" in refused.text) == (422, True)
        if case.act.needs_reason:
            refused = await front.over_http()
            assert (refused.status_code, "give a reason" in refused.text) == (422, True)
        if case.command:
            code, lines, errors = front.by_command("--as-previewed", "0123456789ab", "--reason", "a test")
            assert (code, lines, "nothing was done" in errors) == (1, [], True)
            code, lines, errors = front.by_command()
            assert not case.act.needs_reason or (code, lines, "give a reason" in errors) == (2, [], True)
        assert not case.act.needs_reason or await contents(front.log) == before


@pytest.mark.parametrize("by", ["http", "command"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.act.__name__)
async def test_an_act_does_what_was_previewed_and_is_recorded(case: Case, by: str, tmp_path: Path) -> None:
    if by == "command" and not case.command:
        return
    async with fronted(case, tmp_path) as front:
        token, known = (await front.over_http(dry_run=True)).json()["as_previewed"], await acts(front.log)
        if by == "http":
            done = await front.over_http(as_previewed=token, reason="a test: really")
            assert (done.status_code, "as_previewed" in done.json()) == (case.act.status, False)
        else:
            code, _, errors = front.by_command("--as-previewed", token, "--reason", "a test: really", "--by", "ada")
            assert code == 0, errors
        async with open_log(front.log.port.url, SHOP) as again:
            new = [each for each in await acts(again) if each not in known]
        named = "token:admin-token" if by == "http" else "(ada)"
        assert {(each.what, each.by.endswith(named), each.reason) for each in new} == {
            (case.what, True, "a test: really")
        }


async def test_each_act_has_its_route_with_its_fields_for_its_role(tmp_path: Path) -> None:
    assert {each.act for each in CASES} | {each for each in ACTS if each.__name__ in ELSEWHERE} == {*ACTS}
    async with parked(tmp_path) as (log, _):
        app: FastAPI = create_admin(log, "x" * 32)
        rules, described = {rule.path: rule for rule in rules_of(app) if "POST" in rule.methods}, app.openapi()
    for act in ACTS:
        assert rules[act.path].roles == {act.role, Role.ADMIN}
        operation = described["paths"][re.sub(r":\w+", "", act.path)]["post"]
        (schema,) = re.findall(r"#/components/schemas/(\w+)", json.dumps(operation["requestBody"]))
        given = {*described["components"]["schemas"][schema]["properties"]}
        given |= {each["name"] for each in operation["parameters"]}
        assert given == {field.alias or name for name, field in act.model_fields.items()}
        assert operation["description"] == act.__doc__
