"""Moves a log from one place to another: history, states and running sagas, at the same offsets."""
