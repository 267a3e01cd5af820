#!/bin/sh
exec 4>&-
exec sleep 1000
