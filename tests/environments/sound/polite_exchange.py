"""A two-turn talk: confirm an order with its exact code. The right answer is given as messages."""

from benchmax.envs import BaseEnv, Dataset, Example, RolloutFailure


class Confirm(BaseEnv):
    """The model confirms with `CONFIRM <code>`; the code is the three initials in the prompt, in capitals."""

    max_turns = 2

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        words = (
            "river stone apple cloud tiger maple ocean piano" if split == "train" else "lamp desk moss fern"
        )
        pool = words.split()
        triples = [(a, b, c) for a in pool for b in pool for c in pool if len({a, b, c}) == 3][::7]
        return Dataset([self.row(triple) for triple in triples[:24]][:max_examples])

    def row(self, words):
        text = (
            f"Your order has three parts: {', '.join(words)}. To confirm it reply with CONFIRM, a blank, and the "
            "first letters of the three parts in capitals."
        )
        code = "".join(word[0] for word in words).upper()
        return Example(
            "-".join(words),
            {
                "prompt_messages": [
                    {"role": "system", "content": "You order parts."},
                    {"role": "user", "content": text},
                ],
                "code": code,
            },
        )

    def gold(self, example):
        return [{"role": "assistant", "content": f"CONFIRM {example.payload['code']}"}]

    async def compute_reward(self, rollout):
        if not rollout.messages:
            raise RolloutFailure("reward_error", "there is no transcript")
        said = (rollout.messages[-1].get("content") or "").strip()
        return {"confirmed": float(said == f"CONFIRM {rollout.example_args['code']}")}
