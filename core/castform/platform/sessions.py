"""Who asks: nobody has to say on one's own machine."""

from __future__ import annotations

import os
from pathlib import Path

TOKEN_FILE_VARIABLE = "ACT_AS_TOKEN_PATH"
TOKEN_VARIABLES = ("CASTFORM_AUTH_TOKEN", "CASTFORM_API_KEY")


def ensure_session(*, interactive: bool | None = None) -> None:
    """Make sure that runs can be launched. They can: here they need no account, so nobody is asked.

    `interactive` says whether a person could be asked to sign in; programs of the hosted platform
    pass it.
    """


def platform_bearer() -> str | None:
    """Return the token that a server would be shown, or None: none is set, and here none is needed.

    It is the content of the file that ACT_AS_TOKEN_PATH names, or CASTFORM_AUTH_TOKEN, or
    CASTFORM_API_KEY, read anew each time. OSError when the file cannot be read.
    """
    file = os.environ.get(TOKEN_FILE_VARIABLE)
    found = [Path(file).read_text(encoding="utf-8")] if file else []
    found += [os.environ.get(name, "") for name in TOKEN_VARIABLES]
    return next((token.strip() for token in found if token.strip()), None)
