"""Acts on sagas that were chosen in their list: first what they would come to and what is left out, then the acts themselves."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from eventlib.console.forms import Form, OwnForm
from eventlib.console.parked_acts import Batches
from eventlib.console.parked_page import TRIED, summary_of
from eventlib.console.rendering import Pages
from eventlib.errors import ContractError
from eventlib.http.gate import Caller
from eventlib.identity.principal import Role, allow
from eventlib.operations.saga_acts import MOST_SAGAS, PARKED, PAUSES, SagaActs, SagasAct
from eventlib.search.saga_search import SagaQuery, SagaSearch


def saga_act_routes(pages: Pages, search: SagaSearch, batches: Batches) -> APIRouter:
    """Return the route of acts on sagas."""
    routes, acts = APIRouter(), SagaActs(search)

    @routes.post("/sagas/acts")
    @allow(Role.OPERATOR)
    async def act(request: Request, form: OwnForm, caller: Caller) -> Response:
        about, wrong, is_sent, decider = await _chosen(search, form), "", form.get("step") == "do", form.get("decider")
        if is_sent:
            try:
                form.reason()
                if about.act in PARKED:
                    given = {"names": [*acts.parked(about.sagas)], "most_tried": TRIED}
                    sure = form.get("sure") if about.act == "discard" else None
                    return await batches.begin(about.act, form.act(PARKED[about.act], **given), caller, sure)
            except ContractError as error:
                wrong = str(error)
        if about.act in PAUSES:
            by = caller.by if is_sent and not wrong else ""
            await acts.pause(about, decider, form.under("token."), form.get("reason"), by)
        else:
            await acts.try_parked(about, TRIED)
        summary = None if about.outcome is None else summary_of(about.outcome)
        shown = {"about": about, "summary": summary, "wrong": wrong, "decider": decider, "places": acts.places}
        return pages.render(request, "saga_acts.html", 422 if wrong else 200, **shown)

    return routes


async def _chosen(search: SagaSearch, form: Form) -> SagasAct:
    """Return the act that a form asks for. Raises: ContractError for a wrong query, and as `SagasAct`."""
    if form.get("which") != "all":
        return SagasAct(form.get("act"), form.all("chosen"))
    page = await search.full_page(SagaQuery(form.get("where"), form.get("order_by"), MOST_SAGAS))
    return SagasAct(form.get("act"), [str(each["saga"]) for each in page.sagas], page.next is not None)
