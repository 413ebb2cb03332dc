"""The schema registry: which schemas there are, and which of them read each other's data."""
