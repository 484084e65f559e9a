#!/bin/bash
[ "$(cat /work/report.txt)" = 3 ] && [ ! -e /work/names.txt ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
