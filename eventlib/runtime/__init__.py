"""The runtime: it reads inputs, lets deciders decide, and commits state, events and positions as one.

It knows the model, codecs, logs and stores. Begin with `task`: one partition of one service, from input to commit.
"""
