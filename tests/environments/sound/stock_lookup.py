"""Add up the stock of several items; each needs a call."""

from typing import Annotated

from benchmax.envs import BaseEnv, Dataset, Example

STOCK = {f"bolt-{n}": (n * 37) % 91 + 3 for n in range(1, 61)}


def count_stock(item: Annotated[str, "name such as bolt-7"]) -> str:
    """How many of an item are on the shelf."""
    return str(STOCK[item]) if item in STOCK else f"no item is called {item}"


class StockLookup(BaseEnv):
    max_turns = 6
    max_tool_calls = 8
    tools = (count_stock,)

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        numbers = range(1, 31) if split == "train" else range(31, 55)
        return Dataset([self.row(n) for n in numbers][:max_examples])

    def row(self, n):
        items = [f"bolt-{n}", f"bolt-{n + 2}", f"bolt-{n + 5}"]
        text = f"How many pieces of {items[0]}, {items[1]} and {items[2]} are there together? Reply with the number."
        return Example(
            f"stock-{n}",
            {
                "prompt_messages": [{"role": "user", "content": text}],
                "items": items,
                "answer": str(sum(STOCK[item] for item in items)),
            },
        )

    def gold(self, example):
        """Three lookups, then the sum."""
        calls = [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": f"look-{i}",
                        "type": "function",
                        "function": {"name": "count_stock", "arguments": f'{{"item": "{item}"}}'},
                    }
                ],
            }
            for i, item in enumerate(example.payload["items"])
        ]
        return [*calls, {"role": "assistant", "content": example.payload["answer"]}]

    async def compute_reward(self, rollout):
        asked = [
            call["function"]["arguments"]
            for message in rollout.messages
            for call in message.get("tool_calls") or ()
        ]
        looked = all(
            any(f'"{item}"' in arguments for arguments in asked) for item in rollout.example_args["items"]
        )
        right = (rollout.messages[-1].get("content") or "").strip() == rollout.example_args["answer"]
        return {"right": float(right and looked)}
