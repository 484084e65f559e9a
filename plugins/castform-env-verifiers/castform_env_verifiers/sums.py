"""A verifiers environment as its authors write them: a dataset, a parser, a rubric, `load_environment`."""

from __future__ import annotations

from typing import Any

SYSTEM = "Answer with the number alone between <answer> and </answer>."
SOLVED = [
    {"role": "user", "content": "What is 130 + 214?"},
    {"role": "assistant", "content": "<answer>344</answer>"},
]
"""A small model finds the tags when it sees them; no question has these summands or this sum."""


def load_environment(largest: int = 9) -> Any:  # verifiers is not typed
    """Sums of two numbers up to `largest`; those with an even sum of digits of both are held out."""
    import verifiers as vf
    from datasets import Dataset

    pairs = [(a, b) for a in range(1, largest + 1) for b in range(1, largest + 1)]
    rows = [{"question": f"What is {a} + {b}?", "answer": str(a + b)} for a, b in pairs]
    parser = vf.XMLParser(["answer"], answer_field="answer")

    def correct(completion: Any, answer: str) -> float:
        texts = [message["content"] or "" for message in completion if message["role"] == "assistant"]
        if not texts or texts[-1].count("<answer>") != 1 or texts[-1].count("</answer>") != 1:
            return 0.0
        found = parser.parse_answer(completion)
        return float(found is not None and found.strip() == answer)

    def in_tags(completion: Any) -> float:
        found = parser.parse_answer(completion)
        return float(found is not None and found.strip().isascii() and found.strip().isdigit())

    rubric = vf.Rubric(funcs=[correct, in_tags], weights=[1.0, 0.1], parser=parser)
    held_out = [place for place, (a, b) in enumerate(pairs) if min(a, b) % 2 == 0]
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list([row for place, row in enumerate(rows) if place not in held_out]),
        eval_dataset=Dataset.from_list([rows[place] for place in held_out]),
        system_prompt=SYSTEM,
        few_shot=SOLVED,
        parser=parser,
        rubric=rubric,
    )
