"""A fork server for the tests: each window plays one part."""
import array
import json
import os
import signal
import socket
import struct
import sys
import time

link = socket.socket(fileno=3)


def say(answer):
    link.send(json.dumps(answer).encode())


def report(pipe, data):
    os.write(pipe, struct.pack("<I", len(data)) + data)


def play(request, fds, announced):
    part, pipe = request["part"], fds[0]
    if part == "echo":
        seen = {"text": os.pread(fds[1], 5, 0).decode(), "argv": sys.argv[1:]}
        seen.update(pid=os.getpid(), server=os.getppid())
        report(pipe, json.dumps(seen).encode())
    elif part == "write":
        os.pwrite(fds[1], b"written", 0)
        report(pipe, b"{}")
    elif part == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif part == "exit":
        os._exit(3)
    elif part == "our_bug":
        report(pipe, b'"why"')
        os._exit(70)
    elif part == "silent":
        pass
    elif part == "hang":
        os.fork()
        while True:
            time.sleep(60)
    elif part == "flood":
        while True:
            os.write(pipe, b"\xff" * 65536)
    elif part == "kill_server":
        os.read(announced, 1)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    os._exit(0)


if "absent" in sys.argv:
    say({"not_available": "no torch"})
    sys.exit()
if "dead" in sys.argv:
    sys.exit(1)
if "slow" in sys.argv:
    time.sleep(60)
say({"ready": {"version": 7}})
if "mute" in sys.argv:
    sys.exit()
while True:
    message, control, _, _ = link.recvmsg(1 << 18, socket.CMSG_SPACE(320))
    if not message:
        break
    message, fds = json.loads(message), array.array("i")
    for _, _, data in control:
        fds.frombytes(data)
    if "reap" in message:
        say({"status": os.waitpid(message["reap"], 0)[1]})
    elif message["window"]["part"] == "refuse":
        say({"refused": "not now"})
    else:
        # Ends for the child when the server has said its number.
        announced, until_said = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.close(until_said)
            play(message["window"], fds, announced)
        os.setpgid(pid, pid)
        say({"pid": pid})
        os.close(until_said)
        os.close(announced)
    for fd in fds:
        os.close(fd)
