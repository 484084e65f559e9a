"""Write an expression with the given numbers that reaches the target; a small parser works it out."""

import ast
import itertools
import operator
from fractions import Fraction

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import extract_answer_block

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def work_out(text):
    """Return (value, numbers used) of an arithmetic expression, or None when it is anything else."""
    if len(text) > 100:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    used = []
    try:
        return visit(tree, used), sorted(used)
    except (ValueError, ZeroDivisionError):
        return None


def visit(node, used):
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used.append(node.value)
        return Fraction(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](visit(node.left, used), visit(node.right, used))
    raise ValueError("only + - * / and whole numbers")


class ReachTarget(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        triples = [
            t for t in itertools.combinations(range(2, 14), 3) if (sum(t) % 3 == 0) == (split == "eval")
        ]
        return Dataset([self.row(*triple) for triple in triples[:60]][:max_examples])

    def row(self, a, b, c):
        solution = f"{a} * {b} + {c}"
        target = a * b + c
        text = (
            f"Use each of {a}, {b} and {c} exactly once, with + - * / and brackets, to make {target}. "
            "Put the expression between <answer> and </answer>."
        )
        return Example(
            f"{a}-{b}-{c}",
            {
                "prompt_messages": [{"role": "user", "content": text}],
                "numbers": [a, b, c],
                "target": target,
                "answer": f"<answer>{solution}</answer>",
            },
        )

    async def compute_reward(self, rollout):
        row = rollout.example_args
        result = work_out(extract_answer_block(rollout.messages[-1]["content"], strict=True))
        reached = result is not None and result == (row["target"], sorted(row["numbers"]))
        return {"reached": float(reached)}
