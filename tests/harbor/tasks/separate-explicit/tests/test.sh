#!/bin/bash
score=0
[ "$(cat /work/answer.txt)" = rohcna ] && [ ! -e /work/not-declared ] && [ ! -e /solution ] && score=1
echo $score > /logs/verifier/reward.txt
