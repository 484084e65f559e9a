#!/bin/bash
tr a-z A-Z < draft.txt > print.txt
