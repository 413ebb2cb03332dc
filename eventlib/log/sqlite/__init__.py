"""The embedded log: one SQLite file, durable with every append, shared by the processes of one machine."""
