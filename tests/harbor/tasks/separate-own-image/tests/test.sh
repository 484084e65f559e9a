#!/bin/bash
score=0
cmp -s /expected/name.txt /work/site/name.txt && [ ! -e /work/site/left.tmp ] && score=1
echo $score > /logs/verifier/reward.txt
