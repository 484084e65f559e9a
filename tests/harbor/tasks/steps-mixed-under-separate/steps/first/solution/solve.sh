#!/bin/bash
echo one > /work/first.txt
