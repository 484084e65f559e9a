#!/bin/bash
seq 5 > /work/count.txt
