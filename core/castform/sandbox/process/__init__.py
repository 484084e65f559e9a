"""`process`: programs as they are, on this machine, with limits. It isolates nothing and says so."""
