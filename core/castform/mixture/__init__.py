"""Several environments in one run: each example is asked by the environment that it comes from."""
