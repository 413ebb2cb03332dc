"""A credit desk on Django: it counts what customers order, and calls off what is over their limit."""
