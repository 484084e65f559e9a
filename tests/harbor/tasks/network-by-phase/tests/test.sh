#!/bin/bash
# A route, or a proxy where that is the only way out.
reaches_out() { awk 'NR > 1' /proc/net/route | grep -q . || [ -n "$HTTP_PROXY$http_proxy" ]; }
score=0
if reaches_out; then [ "$(cat /work/state.txt)" = offline ] && score=1; fi
echo $score > /logs/verifier/reward.txt
