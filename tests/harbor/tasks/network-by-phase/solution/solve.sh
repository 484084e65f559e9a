#!/bin/bash
# A route, or a proxy where that is the only way out.
reaches_out() { awk 'NR > 1' /proc/net/route | grep -q . || [ -n "$HTTP_PROXY$http_proxy" ]; }
if reaches_out; then echo online; else echo offline; fi > /work/state.txt
