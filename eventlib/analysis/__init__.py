"""Static analysis of a choreography: findings about its code and its flow of events, before anything runs.

It knows the model and opens no log. Begin with `checks`, which lists every check.
"""
