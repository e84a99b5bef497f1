"""Speed and memory of training over certified shards."""
