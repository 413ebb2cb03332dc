"""The shop's own tables and parts of the report, as the analytics import them: `Choreography(analytics="services.analytics")`."""

TABLES = (
    *("orders", "payments", "dispatches", "saga_outcomes", "stock_levels"),
    *("order_lines", "stock_movements", "saga_steps"),
)
"""The tables about orders, their lines, money, parcels and stock, and the steps that they are made of."""
