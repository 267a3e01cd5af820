#!/bin/sh
# Leaves a process of another session behind that keeps the report open.
setsid sleep 20 &
printf "\002\000\000\000{}" >&4
