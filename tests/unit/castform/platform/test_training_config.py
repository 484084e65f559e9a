"""Laws of SftTrainingConfig: its bounds hold for any values, and what it sends says all that it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.platform import SftTrainingConfig
from castform.platform.training_config import LONG_CONTEXTS, WIDTHS

MODELS = [None, "smollm2-135m", "org/name", *WIDTHS]
ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))


@st.composite
def sound_arguments(draw):
    """Draw arguments within the bounds, each left out now and then."""
    model = draw(st.sampled_from(MODELS))
    context = draw(st.one_of(st.integers(256, 8192), st.sampled_from(LONG_CONTEXTS)))
    rate = draw(st.floats(1e-12, 0.1))
    width = 1 if context > 8192 else 4 if model is None else WIDTHS.get(model, 1)
    values = {
        "num_epochs": draw(st.integers(1, 100)),
        "save_interval": draw(st.integers(1, 10_000)),
        "seed": draw(st.integers(0, 2**31 - 1)),
        "eval_interval": draw(st.integers(1, 10_000)),
        "min_lr": draw(st.floats(0, rate, exclude_max=True)),
        "warmup_ratio": draw(st.floats(0, 0.5)),
        "adam_beta2": draw(st.floats(0.9, 0.999)),
        "grad_clip": draw(st.floats(0, 10, exclude_min=True)),
        "lora_rank": draw(st.sampled_from([32, 64])),
        "lr_decay_style": draw(st.sampled_from(["constant", "cosine"])),
        "global_batch_size": width * draw(st.integers(1, 64 // width)),
    }
    kept = draw(st.sets(st.sampled_from(sorted(values))))
    chosen = {name: value for name, value in values.items() if name in kept}
    return {**chosen, "model": model, "max_context_tokens": context, "learning_rate": rate}


@settings(deadline=None)
@given(sound_arguments())
def test_what_is_within_the_bounds_is_sent_as_it_was_given(arguments):
    args = SftTrainingConfig(**arguments).to_args()
    given_ones = {name: value for name, value in arguments.items() if name != "model"}
    assert given_ones.items() <= args.items()
    assert set(args) == set(given_ones) | {"num_epochs", "save_interval", "seed"}
    assert SftTrainingConfig(**json.loads(json.dumps(args)), model=arguments["model"]) == SftTrainingConfig(
        **arguments
    )


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(sorted(SftTrainingConfig.__dataclass_fields__)), ANYTHING)
def test_any_value_is_taken_as_it_is_or_refused_by_name(name, value):
    try:
        config = SftTrainingConfig(**{name: value})
    except ValueError as error:
        assert f"{name} must be" in str(error) or f"below {name}" in str(error)
        return
    assert getattr(config, name) is value
    assert not isinstance(value, bool)
    json.dumps(config.to_args(), allow_nan=False)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.sampled_from(sorted(SftTrainingConfig.__dataclass_fields__)), ANYTHING))
def test_wrong_values_together_are_a_value_error_too(arguments):
    try:
        SftTrainingConfig(**arguments)
    except ValueError as error:
        assert "must be" in str(error)


def test_numbers_of_a_subclass_are_sent_as_plain_numbers():
    class Rate(float):
        def __repr__(self) -> str:
            return "Rate(…)"

    args = SftTrainingConfig(learning_rate=Rate(0.01)).to_args()
    assert type(args["learning_rate"]) is float
    assert args["learning_rate"] == pytest.approx(0.01)
