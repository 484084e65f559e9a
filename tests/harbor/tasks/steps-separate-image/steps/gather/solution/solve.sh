#!/bin/bash
printf 'cod\nhake\nling\n' > /work/names.txt
