"""Stages of the kind ``tokens``."""
