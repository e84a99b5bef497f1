"""Findings about tokens: lengths, ids, masks, and the tokens that frame a conversation."""

CASES = ()
