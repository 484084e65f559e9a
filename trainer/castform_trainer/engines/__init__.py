"""Engines: one file each, all held to `contract.Engine`."""
