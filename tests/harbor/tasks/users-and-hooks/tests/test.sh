#!/bin/bash
score=0
[ "$(cat /tmp/agent.txt)" = nobody ] && [ "$(id -un)" = daemon ] && [ "$(cat /logs/artifacts/hook.txt)" = root ] && score=1
echo $score > /logs/verifier/reward.txt
