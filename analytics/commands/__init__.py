"""The commands: each runs a job, shows progress, and prints what it read, wrote and took."""
