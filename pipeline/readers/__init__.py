"""Readers: from files to batches of records, one module a format, and what they share."""
