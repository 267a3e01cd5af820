#!/bin/sh
# A program as the model: answers a JSON prompt on stdin with the text of REPLIES/TASK.SEQ.md.
#
#     command_model.sh REPLIES
#
# Exit code 65 says that there is no such reply. The forms are in docs/commands.md.
set -eu
replies=$1
# One line; the first "task" and "seq" are the question's own, because messages come after them.
asked=$(sed -n 's/^{"prompt":1,"id":"[^"]*","task":"\([A-Za-z0-9_-]*\)","seq":\([0-9]*\),.*/\1.\2/p')
file=$replies/$asked.md
if [ -z "$asked" ] || [ ! -f "$file" ]; then
    echo "no reply for '$asked' in $replies" >&2
    exit 65
fi
cat "$file"
