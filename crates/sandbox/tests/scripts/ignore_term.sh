#!/bin/sh
trap '' TERM INT HUP
while :; do sleep 1; done
