#!/bin/sh
seq 1 100000 >&2
echo "the end" >&2
printf "\002\000\000\000{}" >&4
