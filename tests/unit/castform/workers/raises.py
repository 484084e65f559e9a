"""A file that cannot be imported."""

raise LookupError("the data is not here")
