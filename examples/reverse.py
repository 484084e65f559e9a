"""A whole environment in one file: `castform eval ./examples/reverse.py -m smollm2-135m`."""

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import extract_answer_block, extract_completion_text

TRAIN = ["cat", "dog", "sun", "map", "pen", "box", "cup", "hat", "jar", "key", "leg", "net", "owl"]
HELD_OUT = ["ant", "bed", "cow", "egg", "fog", "gem", "hen", "ink"]


class Reverse(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        words = TRAIN if split == "train" else HELD_OUT
        return Dataset([self.make_example(word) for word in words[:max_examples]])

    async def compute_reward(self, rollout):
        answer = extract_answer_block(extract_completion_text(rollout.messages), strict=True)
        return {"correct": float(answer == rollout.example_args["ground_truth"])}

    def make_example(self, word):
        question = f"Spell {word} backwards. Put the letters between <answer> and </answer>."
        prompt = [{"role": "user", "content": question}]
        return Example(id=word, payload={"prompt_messages": prompt, "ground_truth": word[::-1]})
