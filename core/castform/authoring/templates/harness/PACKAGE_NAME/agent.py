"""The agent: a program that knows nothing of castform. Put yours in its place.

It reads a task from stdin, talks to the OpenAI-compatible server that the environment
variables name, and writes its answer to stdout. The model may ask it to calculate: a line
`CALC: 36 * 48` is answered with the result. Exit codes: 0 with an answer, 3 when the model
could not be asked, 4 when it came to no answer.
"""

from __future__ import annotations

import json
import os
import re
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

MAX_TURNS = 6
INSTRUCTIONS = (
    "Solve the task. To calculate, reply with one line such as CALC: 12 * 7 and nothing else; "
    "you will be told the result. When you know the answer, give it alone between <answer> and </answer>."
)
CALCULATION = re.compile(r"CALC:\s*(\d{1,9})\s*([-+*])\s*(\d{1,9})\s*")


def ask(messages: list[dict[str, str]]) -> str:
    """Return the model's reply. OSError or HTTPException when there is none."""
    url = urlsplit(os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions")
    connect = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = connect(url.netloc)
    connection.request(
        "POST",
        url.path,
        json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages}),
        {
            "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
            "Content-Type": "application/json",
        },
    )
    response = connection.getresponse()
    body = response.read().decode()
    if response.status != 200:
        raise OSError(f"status {response.status}: {body[:500]}")
    return json.loads(body)["choices"][0]["message"]["content"] or ""


def calculate(text: str) -> int | None:
    """Return the result of a line that asks for one, else None."""
    found = CALCULATION.fullmatch(text.strip())
    if found is None:
        return None
    first, second = int(found[1]), int(found[3])
    results = {"+": first + second, "-": first - second, "*": first * second}
    return results[found[2]]


def main() -> int:
    messages = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": sys.stdin.read()},
    ]
    for _ in range(MAX_TURNS):
        try:
            reply = ask(messages)
        except (OSError, HTTPException, ValueError) as error:
            sys.stderr.write(f"the model could not be asked: {error}\n")
            return 3
        result = calculate(reply)
        if result is None:
            sys.stdout.write(reply)
            return 0
        messages += [
            {"role": "assistant", "content": reply},
            {"role": "user", "content": str(result)},
        ]
    sys.stderr.write(f"no answer after {MAX_TURNS} turns\n")
    return 4


if __name__ == "__main__":
    sys.exit(main())
