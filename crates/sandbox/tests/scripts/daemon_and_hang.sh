#!/bin/sh
# As daemon, and does not end itself.
setsid sleep 20 &
exec sleep 1000
