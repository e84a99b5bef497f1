"""Shards on disk; pyarrow only."""
