"""Bindings of real agent programs, one file each, and `terminus-lite`, an agent of our own."""
