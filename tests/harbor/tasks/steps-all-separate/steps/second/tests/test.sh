#!/bin/bash
bash /tests/compare.sh /work/second.txt two separate
