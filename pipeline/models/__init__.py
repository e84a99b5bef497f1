"""Limits of the model families, tokenizers and templates."""
