"""Stages of the kind ``table``."""
