#!/bin/bash
mkdir -p /work/site
echo "$HARBOUR" > /work/site/name.txt
echo scratch > /work/site/left.tmp
