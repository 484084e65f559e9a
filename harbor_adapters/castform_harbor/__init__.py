"""Home of the Harbor adapters. This release holds none: environments are Python plugins or files."""
