#!/bin/bash
if [ "$(pwd)" = /srv/ledger ] && [ "$(cat total.txt)" = 12 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
