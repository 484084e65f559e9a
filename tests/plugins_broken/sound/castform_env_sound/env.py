from benchmax.envs import BaseEnv, Dataset, Example
from pydantic import BaseModel, ConfigDict, Field


class EchoConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")

    words: list[str] = Field(default=["yes", "no"], description="What is to be said")
    loud: bool = False


class EchoEnv(BaseEnv):
    def __init__(self, words=("yes", "no")):
        super().__init__(max_turns=1)
        self.words = list(words)

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        words = self.words if split == "eval" else self.words * 2
        return Dataset(
            Example(f"{split}-{i}", {"prompt_messages": [{"role": "user", "content": f"Say {w}"}], "answer": w})
            for i, w in enumerate(words[:max_examples])
        )

    async def compute_reward(self, rollout):
        return {"same": same_word(rollout.messages[-1]["content"], answer=rollout.example_args["answer"])}


def make_environment(config):
    return EchoEnv(words=config.words)


def same_word(completion, *, answer):
    return float(completion == answer)


def shout(args):
    print(args.word.upper())
    return 4
