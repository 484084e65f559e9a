"""A template that writes the date writes that of one moment, whatever it asks for."""

from __future__ import annotations

from datetime import datetime

import pytest

from castform_trainer.gateway.fake_tokenizer import make_fake_tokenizer
from castform_trainer.sft.pinned_clock import pin_clock, reads_clock

MOMENT = datetime(2024, 2, 29, 7, 5, 9)


def render(template):
    tokenizer = make_fake_tokenizer(template)
    return tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False)


@pytest.mark.parametrize(
    "form",
    ["%d %b %Y", "%Y-%m-%d", "%H:%M:%S", "%-d %B, %A", "100%% of %y", "%%d is %d", "%j'%U\"", "no part"],
)
def test_any_format_gives_what_the_clock_would_have_given(form):
    quoted = form.replace("'", "\\'")
    for template in (
        f"{{{{ strftime_now('{quoted}') }}}}",
        f"{{% set f = '{quoted}' %}}{{{{ strftime_now(f) }}}}",
    ):
        assert render(pin_clock(template, MOMENT)) == MOMENT.strftime(form)


@pytest.mark.parametrize(
    "start", ["", "\n", "  ", "\n\n", "a", "  {% if true %}\n b{% endif %}", "\n{%- if 1 %}c{% endif %}"]
)
def test_nothing_else_of_the_rendering_changes(start):
    template = start + "{% macro day() %}{{ strftime_now('%Y') }}{% endmacro %}<{{ day() }}>\n"
    fixed = template.replace("strftime_now('%Y')", "'2024'")
    assert not reads_clock(fixed)
    assert render(pin_clock(template, MOMENT)) == render(fixed)


def test_named_templates_are_pinned_each_and_others_stay_as_they_are():
    named = {"default": "{{ strftime_now('%Y') }}", "tool_use": "{{ bos_token }}"}
    pinned = pin_clock(named, MOMENT)
    assert render(pinned["default"]) == "2024"
    assert pinned["tool_use"] == "{{ bos_token }}" and not reads_clock(pinned["tool_use"])
    assert pin_clock(None, MOMENT) is None
