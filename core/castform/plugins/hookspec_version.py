"""The version of what plugins are written against.

It counts the states of hooks, their arguments, the fields of specs and the fields of events.
An addition or a removal makes it one more; tests/golden has each state. A plugin names the
oldest that it can do with by its requirement on castform (docs/compatibility.md says which
release has which), so there is one range to declare and one to check.
"""

from __future__ import annotations

HOOKSPEC_VERSION = 1
