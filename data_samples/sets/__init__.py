"""The raw sample files, set by set, each with its planted faults."""
