"""The same task as an environment, to evaluate a finetuned model and to go on with RL.

castform eval ./examples/sft/pii_masking/masking_env.py -m smollm2-135m --adapter ADAPTER
castform train ./examples/sft/pii_masking/masking_env.py -m smollm2-135m --set model.adapter=ADAPTER
"""

from pathlib import Path

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import extract_completion_text
from benchmax.sft import SftDataset

FILES = {"train": "train.jsonl", "eval": "held_out.jsonl"}


class MaskPersonalData(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        rows = SftDataset.from_jsonl(Path(base_dir) / "data" / FILES[split])
        return Dataset([make_example(number, row) for number, row in enumerate(rows)][:max_examples])

    async def compute_reward(self, rollout):
        answer = extract_completion_text(rollout.messages)
        return {"exact": float(answer == rollout.example_args["ground_truth"])}


def make_example(number, row):
    *prompt, answer = row["messages"]
    return Example(id=str(number), payload={"prompt_messages": prompt, "ground_truth": answer["content"]})
