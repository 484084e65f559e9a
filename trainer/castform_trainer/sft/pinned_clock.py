"""Chat templates that write the date, made to write that of one moment.

Templates ask for the time with `strftime_now(format)`, and get the clock's. A template can define
a function of its own by that name: it is given one, which knows the parts of that moment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

CLOCK = "strftime_now"
DIRECTIVE = re.compile(r"%[-_^#0]?[aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ]")
PERCENT = "\x00"
"""What stands for %% until the other directives are replaced."""


def reads_clock(source: str) -> bool:
    """Tell whether a chat template asks for the time."""
    return CLOCK in source


def pin_clock(template: Any, now: datetime) -> Any:
    """Return a tokenizer's chat template, or its named ones, with the time standing still at `now`."""
    if isinstance(template, Mapping):
        return {name: pin_clock(source, now) for name, source in template.items()}
    if not isinstance(template, str) or not reads_clock(template):
        return template
    parts = {found: now.strftime(found) for found in DIRECTIVE.findall(template)}
    steps = [("%%", PERCENT), *sorted(parts.items()), (PERCENT, "%")]
    filters = "".join(f" | replace({before!a}, {after!a})" for before, after in steps)
    # The line break belongs to the block before it: templates are read with trim_blocks.
    return f"{{% macro {CLOCK}(format) %}}{{{{ format{filters} }}}}{{% endmacro %}}\n{template}"
