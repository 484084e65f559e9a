"""Pick the tool-call format of a model by the text of its chat template."""

from __future__ import annotations

from castform_trainer.gateway.parsers.hermes import HERMES
from castform_trainer.gateway.parsers.llama_json import LLAMA_JSON
from castform_trainer.gateway.parsers.mistral import MISTRAL
from castform_trainer.gateway.parsers.parsed import ToolFormat
from castform_trainer.gateway.parsers.qwen_xml import QWEN_XML

SIGNS: tuple[tuple[str, ToolFormat], ...] = (
    ("<function=", QWEN_XML),
    ("<tool_call>", HERMES),
    ("[TOOL_CALLS]", MISTRAL),
    ("<|python_tag|>", LLAMA_JSON),
    ('"parameters": ', LLAMA_JSON),
)
"""The first sign found in the template decides."""


def pick_tool_format(template: str) -> ToolFormat:
    """Return the format of a template; Hermes where there is no sign, as the system block asks for it."""
    return next((tool_format for sign, tool_format in SIGNS if sign in template), HERMES)
