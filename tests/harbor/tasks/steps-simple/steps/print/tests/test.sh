#!/bin/bash
if [ "$(cat /work/print.txt 2>/dev/null)" = "TIDES" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
