"""The proof on a GPU: every hazard of the catalogue on raw tensors, and the same data certified."""
