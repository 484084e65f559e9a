#!/bin/bash
echo buoy > /logs/artifacts/word.txt
