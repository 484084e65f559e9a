#!/bin/bash
score=0
[ -e /work/done ] && [ ! -e /tests/notes ] && [ ! -e /tests/.harborignore ] && score=1
echo $score > /logs/verifier/reward.txt
