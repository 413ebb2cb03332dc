"""Static analysis of a choreography: checks, event graph, diagram."""
