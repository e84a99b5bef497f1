"""Training over certified shards only."""
