"""What the commands do: each asks, shows progress, and says what it read, wrote and took."""
