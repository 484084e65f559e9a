#!/bin/bash
score=0
if awk 'NR > 1' /proc/net/route | grep -q .; then [ "$(cat /work/state.txt)" = offline ] && score=1; fi
echo $score > /logs/verifier/reward.txt
