"""The rules as pytest tests: `pytest --pyargs castform.testing.suite --castform-env ID`."""

from __future__ import annotations
