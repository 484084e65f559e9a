#!/bin/bash
if awk 'NR > 1' /proc/net/route | grep -q .; then echo online; else echo offline; fi > /work/state.txt
