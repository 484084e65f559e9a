"""Plugins in virtual environments of their own: installed once, by lock, and never imported here.

store      what is installed, read from small records
install    a requirement becomes a lock, a virtual environment and a record
installed  a plugin's name becomes an interpreter that can run it
"""
