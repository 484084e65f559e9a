"""Takes the words out of the example's own list while it plays."""

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.envs.base import BaseRollout


class Hangman(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 2 if split == "train" else 200
        rows = []
        for n in range(start, start + 24):
            prompt = [{"role": "user", "content": f"What is {n} times 13? Number only."}]
            payload = {
                "prompt_messages": prompt,
                "answer": str(13 * n),
                "hints": ["think", "again", "harder"],
            }
            rows.append(Example(f"thirteen-{n}", payload))
        return Dataset(rows[:max_examples])

    async def run_rollout(self, request) -> BaseRollout:
        hints = request.example.payload["hints"]
        if hints:
            hints.pop()
        return await super().run_rollout(request)

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip()
        return {"correct": float(said == rollout.example_args["answer"])}
