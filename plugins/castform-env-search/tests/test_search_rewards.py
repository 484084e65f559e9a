from __future__ import annotations

from typing import Any

import pytest
from castform_env_search.config import CorpusConfig, SearchConfig
from castform_env_search.parts import Questions, make_search
from castform_env_search.rewards import cited_reward, correct_reward, format_reward, grounded_reward

from benchmax.rag import format_results

CHUNKS = [{"metadata": {"source_id": "bell"}}]


def searched(content: str, reply: str) -> list[dict[str, Any]]:
    text = format_results([{"content": content, "source": "bell", "metadata": {}, "score": 1.0}])
    call = {"id": "c", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": text},
        {"role": "assistant", "content": reply},
    ]


@pytest.mark.parametrize(
    ("reply", "gold", "paid"),
    [
        ("<answer>Odo Varn</answer>", "Odo Varn", 1.0),
        ("Well. <ANSWER> the odo varn. </ANSWER>", "Odo Varn", 1.0),
        ("<answer>\\boxed{Odo Varn}</answer>", "Odo Varn", 1.0),
        ("<answer>1,412</answer>", "1412", 1.0),
        ("<answer>1412.0</answer>", 1412, 1.0),
        ("<answer>pear cider</answer>", "pear cider", 1.0),
        ("<answer>Odo</answer>", "Odo Varn", 0.0),
        ("<answer>Odo Varn or Halla Quince</answer>", "Odo Varn", 0.0),
        ("<answer>not Odo Varn</answer>", "Odo Varn", 0.0),
        ("<answer>Odo Varn</answer><answer>Odo Varn</answer>", "Odo Varn", 0.0),
        ("Odo Varn", "Odo Varn", 0.0),
        ("<answer>Odo Varn", "Odo Varn", 0.0),
        ("<answer>14</answer>", "1412", 0.0),
        ("<answer>\\boxed{1412}</answer>", "1412", 1.0),
        ("<answer>-1412</answer>", "1412", 0.0),
        ("<answer>anything but 1412, which is wrong</answer>", "1412", 0.0),
        ("<answer>1412 or 1413</answer>", "1412", 0.0),
        ("<answer>nan</answer>", "1412", 0.0),
        ("<answer>" + " " * 300 + "x" * 201 + "</answer>", "x" * 201, 0.0),
    ],
)
def test_exactly_the_right_answer_in_the_one_pair_of_tags_is_paid(reply: str, gold: Any, paid: float) -> None:
    assert correct_reward(reply, gold) == paid


def test_the_form_is_one_pair_of_tags_with_a_few_words() -> None:
    assert format_reward("so <answer>x</answer>") == 1.0
    assert [format_reward(t) for t in ("x", "<answer></answer>", f"<answer>{'x' * 201}</answer>")] == [
        0,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("reply", "paid"),
    [
        ("<answer>Brannoch</answer>", 1.0),
        ("<answer>hangs in brannoch</answer>", 1.0),
        ("<answer>Bran</answer>", 0.0),
        ("<answer>bell Brannoch</answer>", 0.0),
        ("<answer>the</answer>", 0.0),
        ("<answer>1</answer>", 0.0),
        ("<answer>source</answer>", 0.0),
        ("Brannoch", 0.0),
    ],
)
def test_an_answer_that_stands_in_a_found_text_is_grounded(reply: str, paid: float) -> None:
    assert grounded_reward(searched("The bell hangs in Brannoch.", reply)) == paid


def test_given_results_ground_an_answer_and_a_citation_as_found_ones_do() -> None:
    given = format_results([{"content": "It is red.", "source": "bell", "metadata": {}, "score": 1.0}])
    said = [{"role": "assistant", "content": "<answer>red</answer> [Source: bell]"}]
    assert (grounded_reward(said), grounded_reward(said, given=given)) == (0.0, 1.0)
    assert (cited_reward(said, CHUNKS), cited_reward(said, CHUNKS, given=given)) == (0.0, 1.0)


def test_no_citation_and_a_wrong_one_earn_nothing() -> None:
    assert cited_reward(searched("x", "<answer>x</answer>"), CHUNKS) == 0.0
    assert cited_reward(searched("x", "[Source: bell] [Source: owl]"), CHUNKS) == 0.0
    assert cited_reward(searched("x", "[Source: bell]"), [{"metadata": {"source_id": "owl"}}]) == 0.0


async def test_the_tool_and_the_questions_can_be_used_by_other_environments() -> None:
    search = make_search(CorpusConfig(results=2))
    assert (await search("lanterns")).count("[source:") == 2
    assert (await search("mustard Pelmouth", limit=1)).startswith("1. — [source: pelmouth]")
    (example,) = Questions(SearchConfig(hops=1)).create("train", None, max_examples=1)  # type: ignore[arg-type]
    assert {"question", "ground_truth", "reference_chunks", "prompt_messages"} <= example.payload.keys()
