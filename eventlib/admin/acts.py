"""The admin API's acts: each has a route whose body is made of its fields."""

import re
from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import Annotated, Any

from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict, create_model

from eventlib.http.gate import Caller
from eventlib.identity.principal import Principal, allow
from eventlib.operations.act import Act, Desk, Outcome, parameter


def add_act(app: FastAPI, desk: Callable[[str], Desk], act: type[Act[Any, Any]]) -> None:
    """Add the route of an act, which is done at the desk of who calls."""
    parameters = _parameters(act)

    @allow(act.role)
    async def perform(
        body: BaseModel | None, caller: Principal, selection: BaseModel | None = None, **place: str
    ) -> dict[str, object]:
        given = [each.model_dump(by_alias=True) for each in (body, selection) if each is not None]
        fields = {name: value for each in (*given, place) for name, value in each.items()}
        done: Outcome = await act.of(fields).perform(desk(caller.by))
        return done.json(personal=caller.sees_personal)

    perform.__doc__, perform.__name__ = act.__doc__, act.__name__.lower()
    perform.__signature__ = Signature(parameters, return_annotation=dict[str, object])  # type: ignore[attr-defined]  # what FastAPI reads
    app.post(act.path, status_code=act.status)(perform)


@cache
def _parameters(act: type[Act[Any, Any]]) -> list[Parameter]:
    """Return what a call of the act's route is given; models are made once, since each takes a millisecond."""
    own, address = act.own_fields(), re.findall(r"{(\w+)", act.path)
    body = create_model(
        act.__name__,
        __base__=Act,
        __doc__=act.__doc__,
        **{name: (field.annotation, field) for name, field in own.items() if name not in {*address, *act.query}},
    )  # type: ignore[call-overload]  # its fields are those of a model
    body.needs_reason = act.needs_reason
    parameters = [parameter(name, str) for name in address]
    parameters.append(parameter("body", body | None, None) if act.may_be_bare else parameter("body", body))
    parameters.append(parameter("caller", Caller))
    if act.query:
        query = create_model(
            f"{act.__name__}Query",
            __config__=ConfigDict(extra="forbid"),
            **{name: (own[name].annotation, own[name]) for name in act.query},
        )  # type: ignore[call-overload]  # as above
        parameters.append(parameter("selection", Annotated[query, Query()]))
    return parameters
