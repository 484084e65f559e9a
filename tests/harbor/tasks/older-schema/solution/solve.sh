#!/bin/bash
touch /work/done
