"""The console: what is on a log, and what operators do about it, in a browser; a process of its own, with its own index."""
