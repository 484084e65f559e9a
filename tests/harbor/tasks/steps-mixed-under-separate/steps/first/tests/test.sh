#!/bin/bash
bash /tests/compare.sh /work/first.txt one shared
