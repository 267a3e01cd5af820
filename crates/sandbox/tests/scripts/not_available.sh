#!/bin/sh
echo "first line" >&2
echo "no such device" >&2
exit 71
