#!/bin/bash
[ "$(cat /tmp/catch/weight.txt)" = 42 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
