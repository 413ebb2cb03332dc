"""A simulator of faults: an application's real deciders, tasks and effects, under a schedule that owns time and order."""
