"""What a secret looks like. Nothing here ever returns or shows the text it looked at."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_PATTERNS = (
    ("an API key (sk-…)", re.compile(r"\bsk-(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{20,}")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})")),
    ("a GitLab token", re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}")),
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,}")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a Google API key", re.compile(r"\bAIza[0-9A-Za-z_-]{35}")),
    ("a Slack token", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("a Stripe key", re.compile(r"\b[rs]k_live_[A-Za-z0-9]{16,}")),
    ("a package index token", re.compile(r"\b(?:pypi-AgE[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{36})")),
    ("a JSON web token", re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")),
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----")),
    ("a bearer token", re.compile(r"\b[Bb]earer +(?=[A-Za-z0-9._~+/-]*[0-9])[A-Za-z0-9._~+/-]{20,}")),
    ("a password in a URL", re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s:@'\"]*:(?![{$<*])[^/\s:@'\"]+@")),
)
_HINT = re.compile(
    "sk-|gh[pousr]_|github_pat_|glpat-|hf_|AKIA|ASIA|AIza|xox|k_live_|pypi-|npm_|eyJ|-----BEGIN|earer|://"
)
"""Stands in every text that one of the patterns matches, and in few others."""
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|secret(?:[_-]?key)?|passw(?:or)?d|passphrase|private[_-]?key|"
    r"(?:auth|access|bearer|refresh|id|session|api)[_-]?token|authorization|credentials?)$",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"(?:[Ee]mpty|EMPTY|[Nn]one|null|dummy|test|fake|example|unused|local|key|token|secret|not[_-]needed|changeme|x+|\*+|\.+|…+|"
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|your[_-].*|[<{$%].*)",
    re.DOTALL,
)
"""Nothing at all, a name of an environment variable, or a blank to fill in."""
_SECRET_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
MIN_SECRET_CHARACTERS = 8


def secret_in(text: str) -> str | None:
    """Return what kind of secret stands in a text, None when none is recognised."""
    if _HINT.search(text) is None:
        return None
    return next((kind for kind, pattern in _PATTERNS if pattern.search(text)), None)


def secret_named(name: str, value: str) -> str | None:
    """Return the kind of secret that a value is by the name it goes under, None for none."""
    if not _SECRET_NAME.search(name) or is_placeholder(value):
        return None
    plain = len(value) < MIN_SECRET_CHARACTERS or any(character.isspace() for character in value)
    return (
        None if plain and not re.search("passw|passphrase", name, re.IGNORECASE) else "a value by this name"
    )


def is_placeholder(value: str) -> bool:
    """Say whether a value only stands where a secret would."""
    return not value.strip() or _PLACEHOLDER.fullmatch(value.strip()) is not None


def secret_variables(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return value to name of this process's environment variables that hold secrets."""
    variables = os.environ if environment is None else environment
    return {
        value: name
        for name, value in variables.items()
        if _SECRET_VARIABLE.search(name) and len(value) >= MIN_SECRET_CHARACTERS and not is_placeholder(value)
    }
