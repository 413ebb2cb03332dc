"""One index of a log in SQLite: sagas and their steps, effects, what is parked or due, pauses and acts.

Search, SQL and the console are views of it. It knows the model, the log and what services note there, and nothing of
those who ask. Begin with `tables` (names and columns, which Spark's tables share), `schema`, and `fold` (a record's meaning).
"""
