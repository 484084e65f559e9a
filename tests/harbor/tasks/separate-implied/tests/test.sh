#!/bin/bash
score=0
[ "$JUDGE" = own ] && [ "$(cat /logs/artifacts/word.txt)" = "$EXPECTED" ] && score=1
echo $score > /logs/verifier/reward.txt
