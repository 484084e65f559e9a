"""What other people's environments can take from here: the questions and the search tool."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any

from benchmax.envs import Dataset, DatasetSplit
from benchmax.rag import search_documents
from castform_env_search.client import Bm25Search
from castform_env_search.config import CorpusConfig, SearchConfig
from castform_env_search.environment import make_dataset


class Questions:
    """A dataset: `question`, `ground_truth` and `reference_chunks`, and the prompt of `search/default`."""

    def __init__(self, config: SearchConfig) -> None:
        self._config = config
        self._client = Bm25Search(None if config.corpus is None else config.corpus.resolve())

    def create(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        """Return the questions of a split; documents that are held out are not asked about in training."""
        return make_dataset(self._config, self._client, split, max_examples=max_examples)


class SearchTool:
    """The search of one corpus."""

    def __init__(self, config: CorpusConfig) -> None:
        self._results = config.results
        self._client = Bm25Search(None if config.corpus is None else config.corpus.resolve())

    async def search(
        self,
        query: Annotated[str, "what to look for"],
        limit: Annotated[int | None, "most results"] = None,
    ) -> str:
        """Search the documents. Each result begins with the name of its source."""
        return await search_documents(self._client, query, limit=self._results if limit is None else limit)


def make_search(config: CorpusConfig) -> Callable[..., Coroutine[Any, Any, str]]:
    return SearchTool(config).search
