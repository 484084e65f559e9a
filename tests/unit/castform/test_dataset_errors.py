"""What a dataset raises: who names a place is told to mend it, everything else is the environment's fault."""

from __future__ import annotations

import pytest
from environments import Sums

from castform.environments import load_examples
from castform.errors import CastformError

NOTED = ValueError("1 of 2 tasks are not whole: broken")
NOTED.add_note("`castform harbor lint tasks` says what is wrong")


@pytest.mark.parametrize(
    ("error", "exit_code", "said", "hint"),
    [
        (ValueError("words.jsonl:3 is no JSON"), 2, "words.jsonl:3", "fix what is named"),
        (NOTED, 2, "castform harbor lint tasks", "fix what is named"),
        (ValueError("3 rows of 4 have no answer"), 1, "3 rows of 4", "create_dataset"),
        (ValueError("the word: 7 is odd"), 1, "is odd", "create_dataset"),
        (KeyError("answer"), 1, "answer", "create_dataset"),
    ],
    ids=["a-line", "a-note", "a-number-first", "a-colon", "no-value"],
)
async def test_a_dataset_that_raises_says_who_can_mend_it(tmp_path, error, exit_code, said, hint):
    class Broken(Sums):
        async def create_dataset(self, split, base_dir, *, max_examples=None):
            raise error

    with pytest.raises(CastformError) as raised:
        await load_examples(Broken(), "train", tmp_path)
    assert raised.value.exit_code == exit_code
    assert said in str(raised.value) and hint in (raised.value.hint or "")
