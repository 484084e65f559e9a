from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from castform.plugins import load_environment
from castform.testing import FakeModel, Reply, ScriptedRequest, ToolUse, assert_conforms

from PACKAGE_NAME.catalogue import DATA, load_prices, price, search


def load_rows(split: str) -> list[Mapping[str, Any]]:
    return [
        json.loads(line) for line in (DATA / f"{split}.jsonl").read_text().splitlines()
    ]


def test_it_keeps_the_rules_that_all_environments_keep() -> None:
    assert_conforms("PLUGIN_NAME")


async def test_a_model_that_looks_the_prices_up_is_paid() -> None:
    environment = load_environment("PLUGIN_NAME").environment
    (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
    basket = load_rows("eval")[0]["basket"]

    def shopper(request: ScriptedRequest) -> Reply:
        """Ask for every price at once, then add up what the tools said."""
        prices = [
            int(message["content"])
            for message in request.messages
            if message["role"] == "tool"
        ]
        if not prices:
            return Reply(
                tool_calls=[
                    ToolUse(name="price", arguments={"article": name})
                    for name in basket
                ]
            )
        total = sum(
            count * cost for count, cost in zip(basket.values(), prices, strict=True)
        )
        return Reply(content=f"<answer>{total}</answer>")

    async with FakeModel(shopper) as model:
        group = await model.run_group(environment, example, split="eval")
    await environment.aclose()
    assert group.rollouts[0].rewards == {"correct": 1.0}
    assert len(group.rollouts[0].calls) == 2


async def test_a_guess_is_not_paid() -> None:
    environment = load_environment("PLUGIN_NAME").environment
    (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
    async with FakeModel(["<answer>10</answer>"]) as model:
        group = await model.run_group(environment, example, split="eval")
    await environment.aclose()
    assert group.rollouts[0].rewards == {"correct": 0.0}


@pytest.mark.parametrize("split", ["train", "eval"])
def test_every_sum_is_the_sum_of_its_prices(split: str) -> None:
    prices = load_prices()
    for row in load_rows(split):
        assert row["sum"] == sum(
            count * prices[name] for name, count in row["basket"].items()
        ), row["id"]


def test_a_wrong_name_is_answered_in_words() -> None:
    assert "search" in str(price("moon"))
    assert search("LAM") == ["lamp"]
    assert search(" ") == []
