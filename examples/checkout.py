"""A checkout on FastAPI and SQLAlchemy: an order begins in the transaction that closes its basket."""

import os

from fastapi import FastAPI, HTTPException
from sqlalchemy import JSON, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from eventlib.outbox import SqlAlchemyOutbox
from services import shop
from services.order.events import OrderSubmitted

app, outbox = FastAPI(), SqlAlchemyOutbox(shop, [OrderSubmitted])
engine = create_engine(os.environ["CHECKOUT_DATABASE"])


class Base(DeclarativeBase):
    """The application's tables."""


class Basket(Base):
    """What a customer has chosen."""

    __tablename__ = "baskets"
    id: Mapped[str] = mapped_column(primary_key=True)
    country: Mapped[str]
    lines: Mapped[list[dict[str, object]]] = mapped_column(JSON)
    is_closed: Mapped[bool] = mapped_column(default=False)


@app.post("/baskets/{basket_id}/checkout", status_code=202)
def check_out(basket_id: str) -> dict[str, str]:
    """Close a basket, and ask the shop for an order of what is in it."""
    with Session(engine) as session, session.begin():
        basket = session.get(Basket, basket_id, with_for_update=True)
        if basket is None or basket.is_closed:
            raise HTTPException(409, "there is no such open basket")
        basket.is_closed = True
        order = {"order_id": basket.id, "country": basket.country, "lines": basket.lines}
        asked = {**order, "currency": "GBP", "customer_id": None, "placed_at": None}
        outbox.put(session, OrderSubmitted.model_validate(asked, strict=False))
    return {"order": f"/orders/{basket_id}"}
