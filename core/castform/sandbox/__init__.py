"""Boxes that run untrusted programs: the contract, `process`, and what providers share."""
