#!/bin/sh
# Announces two gigabytes.
yes >&4
exec sleep 1000
