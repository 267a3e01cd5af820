"""The fork server: imports once, forks a child for each window, never opens a CUDA context."""

import array
import json
import os
import signal
import socket
import struct
import sys
import traceback

SOCKET = 3
REQUEST_BYTES_MAX = 256 << 10
FDS_MAX = 80
EXIT_REPORTED, EXIT_OUR_BUG, EXIT_NOT_AVAILABLE = 0, 70, 71
PR_SET_PDEATHSIG = 1
REASON_CHARS_MAX = 1500


class NotAvailable(Exception):
    """This machine lacks something."""


def imported():
    """PyTorch with all that a window needs, so that no child has to import it."""
    import torch
    import torch._dynamo
    import torch._dynamo.utils
    import torch._inductor

    for name in ["torch._inductor.compile_fx", "triton"]:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    if torch.version.cuda is None:
        raise NotAvailable("PyTorch was built without CUDA")
    return torch


def main():
    link = socket.socket(fileno=SOCKET)

    def say(answer):
        link.send(json.dumps(answer).encode())

    try:
        torch = imported()
        say({"ready": {**versions(torch), "python": sys.version.split()[0]}})
    except (ImportError, OSError, NotAvailable) as error:
        say({"not_available": f"{type(error).__name__}: {error}"[:REASON_CHARS_MAX]})
        return
    children = set()
    while True:
        message, fds = receive(link)
        if not message:
            break
        message = json.loads(message)
        if "reap" in message:
            say(reaped(message["reap"], children))
        elif has_opened_cuda(torch):
            say({"refused": "the server itself has opened a CUDA context"})
        else:
            pid = os.fork()
            if pid == 0:
                link.close()
                child(torch, message["window"], fds)
            own_group(pid)
            children.add(pid)
            say({"pid": pid})
        for fd in fds:
            os.close(fd)
    for pid in children:
        os.killpg(pid, signal.SIGKILL)


def has_opened_cuda(torch):
    """No child could use a context of the server. Importing the compiler opens the driver's device
    file and no context; children work after that."""
    return torch.cuda.is_initialized()


def receive(link):
    room = socket.CMSG_SPACE(FDS_MAX * 4)
    message, control, _, _ = link.recvmsg(REQUEST_BYTES_MAX, room, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return message, list(fds)


def own_group(pid):
    """Both sides do it, so that it is done before either goes on."""
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass


def reaped(pid, children):
    if pid not in children:
        return {"refused": f"{pid} is no child"}
    children.discard(pid)
    return {"status": os.waitpid(pid, 0)[1]}


def child(torch, request, fds):
    """Does one window, writes one report, ends; never returns."""
    code, answer = EXIT_OUR_BUG, "no report"
    try:
        own_group(0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        code, answer = EXIT_REPORTED, report(torch, request, Bulk(fds[1:]))
    except NotAvailable as error:
        code, answer = EXIT_NOT_AVAILABLE, str(error)
    except BaseException:
        code, answer = EXIT_OUR_BUG, traceback.format_exc()[-REASON_CHARS_MAX:]
    try:
        text = json.dumps(answer).encode()
        write_all(fds[0], struct.pack("<I", len(text)) + text)
    finally:
        # The driver's exit handlers would wait for kernels.
        os._exit(code)


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data) :]


def report(torch, request, bulk):
    flags, environment = request["flags"], request["environment"]
    os.environ["CUDA_VISIBLE_DEVICES"] = request["gpu_uuid"]
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(request["cache_folder"], "inductor")
    os.environ["TRITON_CACHE_DIR"] = os.path.join(request["cache_folder"], "triton")
    set_flags(torch, flags)
    flags_before = read_flags(torch, flags, environment)
    before = card_state(request["gpu_uuid"], False)
    result = {
        "end": "Completed", "cold": [], "warm": [], "event_pair_ns": 0.0, "slots": [],
        "before": before, "after": None, "energy_mj": None, "cost": [],
    }
    window = None
    try:
        window = opened(torch, request, bulk)
        result["cold"], result["warm"] = window.run()
    except Unfit as error:
        result["end"] = {"Refused": str(error)[:REASON_CHARS_MAX]}
    except CudaError as error:
        result["end"] = {"Crash": str(error)[:REASON_CHARS_MAX]}
    except torch.cuda.OutOfMemoryError as error:
        result["end"] = {"Unsupported": str(error)[:REASON_CHARS_MAX]}
    if window is not None:
        result["event_pair_ns"] = float(getattr(window, "pair_ns", 0))
        result["slots"] = [{"content": it, "hash": found} for it, found in window.slots.held]
        result["cost"], result["energy_mj"] = window.cost, window.energy_mj
    result["after"] = card_state(request["gpu_uuid"], True)
    return {
        "window": result, "flags_before": flags_before,
        "flags_after": read_flags(torch, flags, environment), "versions": versions(torch),
    }


def opened(torch, request, bulk):
    """A window with its context, stream and subject."""
    try:
        torch.cuda.init()
        # The first tensor makes the context, which the driver's own calls need.
        torch.empty(1, dtype=torch.uint8, device="cuda")
        stream = torch.cuda.Stream()
    except RuntimeError as error:
        raise NotAvailable(f"PyTorch has no use of the GPU: {error}") from error
    torch.cuda.set_stream(stream)
    kept = []

    def allocate(size):
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        return kept[-1].data_ptr()

    global harness
    harness = Harness(Driver(), bulk.read(request["harness"]), stream.cuda_stream, allocate)
    harness.kept = kept
    text = bulk.read(request["module"]).decode() if request["module"] else ""
    return Window(torch, request, bulk, harness, guarded(torch, request, text))


def guarded(torch, request, text):
    """The subject, whose own errors are about it and not about us."""

    def about_it(work, *arguments):
        try:
            return work(*arguments)
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:
            last = "\n".join(traceback.format_exc().strip().splitlines()[-6:])
            raise Unfit(f"it failed: {type(error).__name__}: {error}\n{last}") from error

    subject = about_it(load, torch, request, text)
    return lambda *inputs: about_it(subject, *inputs)


if __name__ == "__main__":
    main()
