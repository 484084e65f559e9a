#!/bin/bash
[ -z "$(ls -A /tests 2>/dev/null)" ] || exit 1
echo two > /work/second.txt
