#!/bin/bash
if [ "$(cat /work/draft.txt 2>/dev/null)" = "tides" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
