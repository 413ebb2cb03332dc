"""The admin API: what an operator reads and does over HTTP, each act with its preview.

It knows operations, queries and HTTP; the console stands on it. Begin with `api`.
"""
