#!/bin/bash
cp topic-copy.txt draft.txt
