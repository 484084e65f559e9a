raise AssertionError("a plugin whose name is claimed twice must not be imported")
