#!/bin/bash
bash /tests/compare.sh /work/first.txt one separate
