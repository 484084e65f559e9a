#!/bin/bash
wc -l < /work/names.txt > /work/report.txt
