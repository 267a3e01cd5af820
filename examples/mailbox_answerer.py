#!/usr/bin/env python3
"""Answers the open questions of a mailbox from a folder of replies.

    mailbox_answerer.py MAILBOX REPLIES [--watch]

Question SEQ of TASK is answered by REPLIES/TASK.SEQ.md, and refused if REPLIES/TASK.SEQ.refuse is
there instead. Questions without either stay open. With --watch it goes on until it is interrupted.
The forms are in docs/mailbox.md.
"""

import argparse
import json
import pathlib
import time


def put(path: pathlib.Path, content: bytes) -> None:
    """Writes a file that is whole whenever it is there."""
    half = path.with_name(path.name + ".tmp")
    half.write_bytes(content)
    half.rename(path)


def answer(mailbox: pathlib.Path, replies: pathlib.Path, prompt: pathlib.Path) -> bool:
    """Answers one question if it can; true if it did."""
    try:
        asked = json.loads(prompt.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False  # Given up meanwhile.
    if asked["mailbox"] != 1:
        raise SystemExit(f"{prompt}: form {asked['mailbox']} is unknown; this program reads 1")
    if any((mailbox / f"{asked['id']}{ending}").exists() for ending in (".reply.md", ".refuse")):
        return False
    for ending, written in ((".md", ".reply.md"), (".refuse", ".refuse")):
        source = replies / f"{asked['task']}.{asked['seq']}{ending}"
        if source.is_file():
            put(mailbox / f"{asked['id']}{written}", source.read_bytes())
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mailbox", type=pathlib.Path)
    parser.add_argument("replies", type=pathlib.Path)
    parser.add_argument("--watch", action="store_true", help="go on until interrupted")
    options = parser.parse_args()
    while True:
        for prompt in sorted(options.mailbox.glob("*.prompt.json")):
            if answer(options.mailbox, options.replies, prompt):
                print(f"answered {prompt.name}", flush=True)
        if not options.watch:
            return
        time.sleep(0.5)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
