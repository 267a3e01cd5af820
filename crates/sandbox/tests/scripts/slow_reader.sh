#!/bin/sh
# Reads a long request late, then says how long it was.
sleep 0.3
bytes=$(cat <&3 | wc -c)
printf "\\$(printf %03o ${#bytes})\\000\\000\\000%s" "$bytes" >&4
