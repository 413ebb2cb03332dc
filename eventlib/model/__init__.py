"""What a service is declared with: events, topics, deciders, effects, services, choreographies."""
