#!/bin/bash
python3 -c 'print(sum(map(int, open("amounts.txt"))))' > total.txt
