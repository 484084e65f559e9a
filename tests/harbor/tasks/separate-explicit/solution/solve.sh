#!/bin/bash
echo anchor | rev > /work/answer.txt 2>/dev/null || python3 -c 'print("anchor"[::-1])' > /work/answer.txt
touch /work/not-declared
