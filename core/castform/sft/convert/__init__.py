"""Rows of other shapes to benchmax-sft-v1: what can be kept is kept, and whatever was done is told row by row.

formats.py   the table of formats, each a plain function from a source row to a Draft
source.py    files as they come: JSON lines, an array, packed, with a byte order mark
conversion.py  rows through a format and through the checks of benchmax.sft
report.py    a line a row, and what all of them come to
"""
