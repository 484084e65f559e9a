"""The schemas that tools have can be rendered by chat templates, recursive ones too."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from benchmax.envs import FunctionTool

pytest.importorskip("jinja2", reason="needs the extra castform[train]")
pytest.importorskip("tokenizers", reason="needs the extra castform[train]")

from castform_trainer.gateway.fake_tokenizer import PLAIN, TOOLS, make_fake_tokenizer
from castform_trainer.gateway.template import TemplateRenderer
from castform_trainer.gateway.tokens import TextCodec

BY_PARAMETER = (
    "{% for tool in tools %}<function>{{ tool.function.name }}: {{ tool.function.description }}"
    "{% for name, field in tool.function.parameters.properties | items %}"
    "<parameter>{{ name }}{% if field.type is defined %} type={{ field.type }}{% endif %}"
    "{% if field.description is defined %} words={{ field.description }}{% endif %}</parameter>"
    "{% endfor %}</function>{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""As the templates do that write each parameter in XML."""


class Folder(BaseModel):
    """A folder with folders in it."""

    name: str
    inside: list[Folder] = []


def tidy(root: Folder, depth: int = 1, label: str | None = None) -> None:
    """Tidy up."""


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (PLAIN, '"$ref": "#/$defs/Folder"'),
        (TOOLS, '"$ref": "#/$defs/Folder"'),
        (
            BY_PARAMETER,
            "<function>tidy: Tidy up.<parameter>root</parameter><parameter>depth type=integer</parameter>",
        ),
    ],
)
def test_a_recursive_schema_is_rendered_whole(template: str, expected: str) -> None:
    tokenizer: Any = make_fake_tokenizer(template)
    renderer = TemplateRenderer(tokenizer, TextCodec(tokenizer), "fake")
    tool: Any = FunctionTool(function=tidy).definition()
    text = renderer.render([{"role": "user", "content": "go"}], [tool])
    assert expected in text
    assert template == BY_PARAMETER or '"$defs": {"Folder": ' in text
