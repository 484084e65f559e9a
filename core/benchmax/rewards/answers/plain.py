"""Text without what only dresses it: emphasis, code ticks, LaTeX wrappers, other scripts' digits."""

from __future__ import annotations

import re
import unicodedata

_WRAPPER = re.compile(
    r"\\(?:text|mathrm|mathbf|textbf|mathit|textit|emph|operatorname|mbox|mathsf)\s*\{([^{}]*)\}"
)
_DECORATION = re.compile(
    r"[*`$]|\\[()\[\]]|\\[,;!: ]|\\(?:left|right|displaystyle|quad|qquad)(?![A-Za-z])|(?<!\w)_+|_+(?!\w)"
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_VULGAR = re.compile("[\u00bc-\u00be\u2150-\u215e\u2189]")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_SAME_AS = str.maketrans(
    {"\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2019": "'", "\u2018": "'", "\u02bc": "'", "\u2044": "/"}
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", "")
    | dict.fromkeys("\u201c\u201d\u201e", '"')
)
_ARTICLE = re.compile(r"^(?:the|an?)\s+")


def canonical(text: str) -> str:
    """Return the text in compatibility form (NFKC) with ASCII digits, minus, apostrophe and quotes.

    Powers and fractions that are one character are spelled out first, since NFKC would turn
    "5²" into 52 and "1½" into 11/2.
    """
    if text.isascii():
        return text
    text = _SUPERSCRIPT_RUN.sub(lambda run: "^" + run.group().translate(_SUPERSCRIPTS), text)
    text = _VULGAR.sub(lambda sign: " " + unicodedata.normalize("NFKC", sign.group()) + " ", text)
    text = unicodedata.normalize("NFKC", text.replace("\u00ba", "°")).translate(_SAME_AS)
    return _OTHER_DIGIT.sub(lambda sign: str(unicodedata.decimal(sign.group())), text)


def undecorated(text: str) -> str:
    """Return the text in canonical form without emphasis, code ticks, dollar signs and LaTeX wrappers."""
    return _DECORATION.sub("", _WRAPPER.sub(r"\1", canonical(text)))


def plain_words(text: str, *, ignore_articles: bool = False) -> str:
    """Return an answer in words as it is compared: undecorated, no end punctuation, any case, blanks joined."""
    words = " ".join(undecorated(text).split()).strip(" .,;:!?\"'").casefold()
    return _ARTICLE.sub("", words) if ignore_articles else words
