#!/bin/sh
# Proves this program on the GPUs of a machine: what `docs/measurements/` quotes comes from here.
#
#   docs/measurements/run.sh [PROGRAM] [FOLDER] [more words for `selftest gpu`]
#
# PROGRAM is the warpwright binary (it needs no checkout, cargo or network where a CUDA toolkit of
# the pinned version is installed); FOLDER gets the rows and the page, and a second call with the
# same folder goes on where the first one ended.
set -eu
program=${1:-target/dist/warpwright}
folder=${2:-selftest}
if [ $# -ge 2 ]; then shift 2; else shift $#; fi
mkdir -p "$folder"
export WARPWRIGHT_CACHE="${WARPWRIGHT_CACHE:-$folder/cache}"
export WARPWRIGHT_LEDGER="${WARPWRIGHT_LEDGER:-$folder/ledger.db}"
echo "date: $(date -u '+%Y-%m-%d %H:%M:%S') UTC; kernel $(uname -r)"
"$program" --version
"$program" doctor || true
"$program" hardware probe
exec "$program" selftest gpu --out "$folder" "$@"
