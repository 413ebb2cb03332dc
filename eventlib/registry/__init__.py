"""The schema registry: which schemas exist, and which of them read each other's data.

It knows the log that it keeps schemas on; its server is `eventlib.http.registry`. Begin with `registrar`.
"""
