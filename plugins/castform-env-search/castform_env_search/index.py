"""A BM25 index over documents: made once a process, and kept on disk when making it takes long."""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from castform_env_search.corpus import Document, hash_documents, list_files, load_articles, read_folder

logger = logging.getLogger(__name__)

KEPT_FROM_CHARACTERS = 2_000_000
"""Smaller corpora are indexed faster than an index is read."""
MAX_QUERY_CHARACTERS = 2_000
TOKENS = "w1"
"""Changes with how text is cut into words: an index of others finds otherwise."""
_WORD = re.compile(r"\w+")
_STOPWORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by did do does for from had has have how if in into is it its no not of on or "
        "s such that the their then there these they this to was were what when where which who whom whose will "
        "with",
    )
)
_making = Lock()


class Bm25Index:
    """Finds documents by their words. The same query always finds the same, ties in the order of the corpus."""

    def __init__(self, documents: Sequence[Document], *, cache: Path | None = None) -> None:
        """`cache` is the folder for indexes of large corpora; None keeps none."""
        self.documents = tuple(documents)
        self.sources = frozenset(document.source for document in self.documents)
        self._scorer = _load_scorer(self.documents, cache)

    def search(self, query: str, limit: int) -> list[tuple[Document, float]]:
        """Return at most `limit` documents that share a word with the query, with their scores, best first."""
        import numpy as np

        known = self._scorer.vocab_dict
        words = [word for word in cut_words(query[:MAX_QUERY_CHARACTERS]) if word in known]
        if not words:
            return []
        scores = self._scorer.get_scores(words)
        order = np.argsort(-scores, kind="stable")[:limit]
        return [(self.documents[place], float(scores[place])) for place in order if scores[place] > 0]


def cut_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without those that are everywhere."""
    return [word for word in _WORD.findall(text.casefold()) if word not in _STOPWORDS]


def load_index(folder: Path | None) -> Bm25Index:
    """Return the index of a folder, or of the package's own articles. Made once, and again when a file changed.

    ValueError: the folder holds no text, or a file cannot be read as what it is.
    """
    with _making:
        if folder is None:
            return _make_index(None, ())
        states = ((path, path.stat()) for path in list_files(folder))
        return _make_index(folder, tuple((str(p), s.st_mtime_ns, s.st_size) for p, s in states))


@lru_cache(maxsize=4)
def _make_index(folder: Path | None, state: tuple[tuple[str, int, int], ...]) -> Bm25Index:
    if folder is None:
        return Bm25Index(load_articles())
    return Bm25Index(read_folder(folder), cache=cache_folder())


def cache_folder() -> Path:
    """Return where indexes of large corpora are kept: below CASTFORM_HOME, by default `~/.castform`."""
    home = Path(os.environ.get("CASTFORM_HOME") or Path.home() / ".castform").expanduser()
    return home / "cache" / "search"


def _load_scorer(documents: Sequence[Document], cache: Path | None) -> Any:  # Any: bm25s is not typed
    import bm25s  # type: ignore[import-untyped]  # it has no types

    size = sum(len(document.content) for document in documents)
    if cache is None or size < KEPT_FROM_CHARACTERS:
        return _make_scorer(documents)
    place = cache / f"{hash_documents(documents)[:32]}-{TOKENS}-{bm25s.__version__}"
    try:
        scorer = bm25s.BM25.load(place, show_progress=False)
        if scorer.scores["num_docs"] == len(documents):
            return scorer
    except Exception as error:  # noqa: BLE001 - bm25s raises what its files provoke; a new index is made
        if place.exists():
            logger.warning("the index in %s cannot be read and is made anew: %s", place, error)
    scorer = _make_scorer(documents)
    try:
        _keep(scorer, place)
    except OSError as error:
        logger.warning("the index cannot be kept in %s: %s", place, error)
    return scorer


def _make_scorer(documents: Sequence[Document]) -> Any:
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # which it sets to DEBUG when it is imported
    scorer = bm25s.BM25()
    # Titles count twice: a document about something is found before one that mentions it.
    words = [cut_words(f"{d.title} {d.title} {d.content}") or [""] for d in documents]
    scorer.index(words, show_progress=False)
    return scorer


def _keep(scorer: Any, place: Path) -> None:
    """Write an index beside its place and move it there, so that no reader sees half of one."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{place.name}.", dir=place.parent))
    try:
        scorer.save(draft, show_progress=False)
        if place.exists():
            shutil.rmtree(place, ignore_errors=True)
        draft.rename(place)
    except OSError:
        if not place.exists():  # or another process was faster, and has the same
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
