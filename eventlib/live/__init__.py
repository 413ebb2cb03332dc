"""Live views: streams that people watch while they flow, on Faust. See README.md beside this file.

Only this package imports Faust. A view decides nothing: whatever it shows can be computed anew from the log.
"""
