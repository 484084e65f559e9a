"""The numbers and names of benchmax-sft-v1."""

from __future__ import annotations

FORMAT = "benchmax-sft-v1"

MAX_ROW_BYTES = 1_048_576
"""Canonical bytes of a row, without the newline behind it."""
MAX_MESSAGES = 1024
MAX_TOOLS = 128
MAX_METADATA_BYTES = 65_536
"""Canonical bytes of a row's metadata."""
MAX_LEVELS = 64
"""Objects and lists inside one another; the row itself is the first."""
RESERVED_PREFIX = "_castform_"
"""No key of a row's metadata starts with it. Deeper inside it is free."""

MAX_LINE_BYTES = 16 * MAX_ROW_BYTES
"""What is looked at in search of faults. A longer line, or a row with more in it, is refused
as too large without a look at the rest, so that memory stays bounded: no writer needs more than
6 bytes for a canonical one."""
MAX_INTEGER_DIGITS = 4300
"""What Python turns into text and back; other readers of JSON stop earlier."""
