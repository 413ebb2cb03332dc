"""What a cluster has to be given before services run on it, derived from their choreography: topics, users, rights."""
