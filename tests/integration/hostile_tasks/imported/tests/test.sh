#!/bin/sh
# As many tests do: Python is started in the agent's folder, so that its modules come first.
cd /app || exit 1
echo 0 > /logs/verifier/reward.txt
python3 -c 'import random, pathlib; raise SystemExit(pathlib.Path("answer.txt").read_text().strip() != "42")' && echo 1 > /logs/verifier/reward.txt
