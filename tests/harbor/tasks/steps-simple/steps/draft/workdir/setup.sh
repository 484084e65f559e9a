#!/bin/bash
cp topic.txt topic-copy.txt
