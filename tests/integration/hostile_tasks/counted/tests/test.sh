#!/bin/bash
# Calls what an agent would like to have replaced. Doing nothing gets 0, the answer gets 3.
reward=0
grep -qx 42 /app/answer.txt && reward=$((reward + 1))
python3 /tests/check.py && reward=$((reward + 1))
cmp -s /tests/expected.txt /app/answer.txt && reward=$((reward + 1))
echo "$reward" > /logs/verifier/reward.txt
