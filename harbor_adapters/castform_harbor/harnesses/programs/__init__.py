"""Programs that run inside the box: a few lines around agent libraries that bring no command of their own."""
