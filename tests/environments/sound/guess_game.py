"""Find a hidden number with a tool that says higher or lower."""

from contextlib import asynccontextmanager

from benchmax.envs import BaseEnv, Dataset, Example

PROMPT = (
    "I think of a number from 1 to 200. Use the tool `compare` to find it, then reply with the number alone."
)
COMPARE = {
    "type": "function",
    "function": {
        "name": "compare",
        "description": "Compare a guess with the hidden number.",
        "parameters": {
            "type": "object",
            "properties": {"guess": {"type": "integer"}},
            "required": ["guess"],
        },
    },
}


class GuessGame(BaseEnv):
    max_turns = 10
    max_tool_calls = 12

    def __init__(self):
        super().__init__()
        self._hidden = {}

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        numbers = range(5, 101, 4) if split == "train" else range(103, 200, 4)
        return Dataset(
            [
                Example(
                    f"hidden-{n}",
                    {"prompt_messages": [{"role": "user", "content": PROMPT}], "answer": str(n)},
                )
                for n in numbers
            ][:max_examples]
        )

    @asynccontextmanager
    async def rollout_context(self, rollout_id, example):
        self._hidden[rollout_id] = int(example.payload["answer"])
        try:
            yield
        finally:
            del self._hidden[rollout_id]

    async def list_tools(self):
        return [COMPARE]

    async def run_tool(self, rollout_id, tool_name, /, guess):
        hidden = self._hidden[rollout_id]
        if guess == hidden:
            return "equal"
        return "higher" if hidden > guess else "lower"

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1].get("content") or "").strip()
        return {"found": float(said == rollout.example_args["answer"])}
