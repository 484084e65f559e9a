"""Turn a sentence about a person into a JSON object with three fields."""

import json

from benchmax.envs import BaseEnv, Dataset, Example

NAMES = "Alba Bruno Carla Diego Elena Fabio Greta Hugo Irene Jonas Klara Louis Marta Nils Olga Pavel".split()
CITIES = ["Lyon", "Graz", "Turin", "Ghent", "Porto", "Gdansk", "Bergen"]


class JsonPeople(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        offset = 0 if split == "train" else 500
        return Dataset([self.row(offset + i) for i in range(32)][:max_examples])

    def row(self, i):
        person = {"name": NAMES[i % 16], "age": 20 + (i * 7) % 60, "city": CITIES[(i * 3) % 7]}
        text = (
            f"{person['name']} lives in {person['city']} and turned {person['age']} this year. "
            'Write that as a JSON object with the keys "name", "age" (a number) and "city", and nothing else.'
        )
        return Example(
            f"person-{i}",
            {
                "prompt_messages": [{"role": "user", "content": text}],
                "person": person,
                "answer": json.dumps(person),
            },
        )

    async def compute_reward(self, rollout):
        text = (rollout.messages[-1]["content"] or "").strip()
        if len(text) > 1000:
            return {"valid": 0.0, "right": 0.0}
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return {"valid": 0.0, "right": 0.0}
        if not isinstance(said, dict) or set(said) != {"name", "age", "city"}:
            return {"valid": 0.0, "right": 0.0}
        return {"valid": 0.2, "right": float(said == rollout.example_args["person"])}
