"""What a user can set."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, DirectoryPath, Field, FilePath, model_validator

PACKAGE_HOPS = 2
"""Most documents that a question of the package's own needs."""


class CorpusConfig(BaseModel):
    """What is searched."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    corpus: DirectoryPath | None = None
    """Folder with .md, .txt and .jsonl files to search. Unset: the articles that come with this package."""
    results: int = Field(3, ge=1, le=50)
    """Results of a search that asks for no number of them."""


class SearchConfig(CorpusConfig):
    """The corpus, the questions about it, and how long a rollout may search."""

    questions: FilePath | None = None
    """JSONL file with question, answer and sources a line. A corpus of yours needs one."""
    eval_questions: FilePath | None = None
    """The held-out questions. Unset: those of `questions` whose sources are all held out."""
    seed: int = Field(0, ge=0, lt=2**31)
    """Decides which questions are drawn, and their order."""
    train_examples: int = Field(400, ge=1, le=1_000_000)
    """Most training questions."""
    eval_examples: int = Field(200, ge=1, le=1_000_000)
    """Most held-out questions."""
    hops: int | None = Field(None, ge=1, le=10)
    """Documents that a question needs. Unset: any number."""
    max_searches: int = Field(4, ge=0, le=100)
    """Most searches of one rollout; one more turn is for the answer. 0, with `searched`: none, and no tool."""
    searched: bool = False
    """Ask each question with the results of a search for it: a first stage, or reading alone."""
    solved_examples: int = Field(1, ge=0, le=1)
    """A solved question with its search in front of the one asked. A small model needs it. Of the package's
    articles only: a corpus of yours has none."""

    @model_validator(mode="after")
    def _questions_fit_the_corpus(self) -> SearchConfig:
        if self.corpus is not None and self.questions is None:
            raise ValueError(
                "questions must be set with corpus: the package's own are about its own articles"
            )
        if self.corpus is None and (self.questions is not None or self.eval_questions is not None):
            raise ValueError(
                "corpus must be set with questions: those of yours are not about the package's articles"
            )
        if self.corpus is None and (self.hops or 1) > PACKAGE_HOPS:
            raise ValueError(
                f"hops is {self.hops}, but the package's questions need 1 or {PACKAGE_HOPS} documents"
            )
        if self.max_searches == 0 and not self.searched:
            raise ValueError("max_searches = 0 leaves nothing to answer from: set searched = true with it")
        return self


class JudgedConfig(SearchConfig):
    """And the judge that says whether an answer is right."""

    judge_model: str
    """Its name at the endpoint."""
    judge_base_url: str
    """OpenAI-compatible, usually ending in /v1."""
    judge_key_env: str | None = None
    """Environment variable that holds its key. Unset: the key that the host has bound to "judge"."""
    judge_timeout: float = Field(60.0, gt=0, le=3600)
    """Most seconds for one verdict, retries included."""
