"""Stages of the kind ``chat``: turns judged, rendered, tokenized and masked."""
