#!/bin/bash
# compare.sh FILE WORD MODE: the word is there, and the tests run where they should
where=separate
[ -e /work/.agent-box ] && where=shared
score=0
[ "$(cat "$1" 2>/dev/null)" = "$2" ] && [ "$where" = "$3" ] && score=1
echo $score > /logs/verifier/reward.txt
