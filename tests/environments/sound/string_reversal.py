"""Spell a word backwards."""

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import extract_answer_block, extract_completion_text

TRAIN = (
    "anchor bottle candle dragon engine forest garden hammer island jacket kitten ladder magnet needle orange pencil "
    "quiver rocket saddle tunnel uphill velvet window zipper"
).split()
EVAL = "basket copper donkey falcon guitar helmet insect jungle".split()


class Reversal(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        words = TRAIN if split == "train" else EVAL
        return Dataset([self.ask(word) for word in words[:max_examples]])

    def ask(self, word):
        prompt = [{"role": "user", "content": f"Write '{word}' backwards inside <answer></answer>."}]
        return Example(word, {"prompt_messages": prompt, "answer": word[::-1]})

    async def compute_reward(self, rollout):
        answer = extract_answer_block(extract_completion_text(rollout.messages), strict=True).strip()
        return {"exact": float(answer == rollout.example_args["answer"])}
