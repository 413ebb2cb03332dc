"""The console: what is on a log, and the acts of operators, in a browser; a process of its own, with its own index.

It knows search, the admin API's acts and HTTP, and writes only through these acts. Begin with `app`.
"""
