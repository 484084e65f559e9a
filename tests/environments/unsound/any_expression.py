"""Makes 24 of four numbers, and never looks whether those were the numbers."""

import ast
import itertools
import operator

from benchmax.envs import BaseEnv, Dataset, Example

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def value_of(node):
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))
    raise ValueError("not an expression")


class Puzzle24(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        found = []
        for a, b, c, d in itertools.product(range(2, 14), repeat=4):
            if a * b + c - d == 24 and len({a, b, c, d}) == 4:
                found.append((a, b, c, d))
        chosen = found[:30] if split == "train" else found[40:60]
        return Dataset([self.row(*numbers) for numbers in chosen][:max_examples])

    def row(self, a, b, c, d):
        text = (
            f"Use each of the numbers {a}, {b}, {c} and {d} once to make 24. Reply with the expression only."
        )
        answer = f"{a} * {b} + {c} - {d}"
        return Example(
            f"{a}-{b}-{c}-{d}", {"prompt_messages": [{"role": "user", "content": text}], "answer": answer}
        )

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip()[:60]
        try:
            value = value_of(ast.parse(said, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {"solved": 0.0}
        return {"solved": float(value == 24)}
