"""The stages: each takes a batch and returns a batch and findings."""
