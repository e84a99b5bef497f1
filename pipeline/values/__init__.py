"""The one cell grammar and the one JSON decoder."""
