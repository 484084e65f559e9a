#!/bin/bash
mkdir -p /tmp/catch
echo $((17 + 25)) > /tmp/catch/weight.txt
