#!/bin/bash
[ ! -e /tests ] || exit 1
echo two > /work/second.txt
