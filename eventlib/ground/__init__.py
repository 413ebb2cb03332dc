"""The ground floor: settings, addresses, files, clients and arguments, of which any package may make use.

It knows `eventlib.errors` and libraries, and nothing of events. Begin with `variables` (how a setting is read) and
`arguments` (how an argument is refused).
"""
