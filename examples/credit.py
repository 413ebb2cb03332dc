"""A credit desk on FastAPI and SQLAlchemy: it counts what customers order, and calls off what is over their limit."""

import os

from fastapi import FastAPI
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from eventlib.outbox import SqlAlchemyOutbox
from eventlib.sinks import SqlSink
from services import shop
from services.order.events import CancelSubmitted, OrderPlaced

app, inbox = FastAPI(), SqlSink("credit", shop, from_now=True)
outbox = SqlAlchemyOutbox(shop, [CancelSubmitted])
engine = create_engine(os.environ["CREDIT_DATABASE"])


class Base(DeclarativeBase): ...


class Customer(Base):
    __tablename__ = "customers"
    id: Mapped[str] = mapped_column(primary_key=True)
    limit_cents: Mapped[int]
    spent_cents: Mapped[int] = mapped_column(default=0)


@inbox.on
def placed(order: OrderPlaced, session: Session) -> None:
    customer = session.get(Customer, order.customer_id or "", with_for_update=True)
    if customer is not None and customer.spent_cents + order.amount_cents > customer.limit_cents:
        outbox.put(session, CancelSubmitted(order_id=order.order_id, reason="credit"))
    elif customer is not None:
        customer.spent_cents += order.amount_cents


@app.get("/customers/{customer_id}")
def spent(customer_id: str) -> int:
    with Session(engine) as session:
        return session.get_one(Customer, customer_id).spent_cents
