"""Is a number even? As many yes as no."""

from benchmax.envs import BaseEnv, Dataset, Example

WORDS = {"yes": True, "no": False}


class Parity(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        low = 100 if split == "train" else 5000
        numbers = [low + 7 * step for step in range(60)]
        return Dataset(
            [
                Example(
                    str(n),
                    {
                        "prompt_messages": [
                            {"role": "system", "content": "Reply with yes or no."},
                            {"role": "user", "content": f"Is {n} an even number?"},
                        ],
                        "answer": "no" if n % 2 else "yes",
                    },
                )
                for n in numbers[:max_examples]
            ]
        )

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip().strip(".!").lower()
        return {"right": float(said in WORDS and said == rollout.example_args["answer"])}
