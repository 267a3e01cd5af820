"""Performs the operations of a window, as crates/runner/src/window.rs does."""

import ctypes
import mmap
import time

EVENT_PAIRS = 50
YARDSTICK_MS = 50
FIRST_CALLS = 5
CALLS_AFTER_COMPILE = 5
COMPILES_MAX = 64
# Held against the Rust side by a test of the runner.
ENERGY_PATIENCE = 5
ENERGY_BATCH_MS = 10
ENERGY_BATCH_CALLS_MAX = 64
MASK = (1 << 64) - 1


def mix(state):
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & MASK
    return state ^ (state >> 31)


def output_key(key, output):
    return [mix((part + output) & MASK) for part in key]


def combined_hash(hashes):
    return [sum(pair[at] for pair in hashes) & MASK for at in range(2)]


class Slots:
    """Which outputs are copied out."""

    def __init__(self, contents, room):
        self.contents, self.room, self.held = contents, room, []

    def has_room(self, content):
        others = {it for it in range(self.contents) if it != content}
        kept = len(others - {it for it, _ in self.held})
        return len(self.held) + kept < self.room

    def wants(self, content, found):
        return (content, found) not in self.held and self.has_room(content)

    def cannot_verify(self, content):
        known = sum(it == content for it, _ in self.held)
        return known > 1 and not self.has_room(content)


def series(specs, least, budget_ns, slots, take, clock, copied):
    """Takes samples until the list, the budget or the room is over; copying does not count."""
    started, copied_before, taken = clock(), copied(), []
    for spec in specs:
        timed = sum(sample["content"] == 0 for sample in taken)
        own = clock() - started - (copied() - copied_before)
        if timed >= least and own >= budget_ns or slots.cannot_verify(spec["content"]):
            break
        taken.append(take(spec))
    return taken


def per_call_mj(readings, least_ms):
    """As crates/pipeline/src/energy.rs: readings are (elapsed_ms, calls, counter_mj)."""
    steps = [now for last, now in zip(readings, readings[1:]) if last[2] != now[2]]
    if not steps:
        return None
    first, last = steps[0], steps[-1]
    calls, spent_mj = last[1] - first[1], last[2] - first[2]
    if calls <= 0 or spent_mj < 0 or last[0] - first[0] < least_ms:
        return None
    return spent_mj / calls


class Bulk:
    """Memories of the judge, mapped; those that are read are private copies."""

    def __init__(self, fds):
        self.fds, self.maps = fds, {}

    def address(self, part, writable=False):
        index = part["bulk"]
        if index not in self.maps:
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_COPY
            self.maps[index] = mmap.mmap(self.fds[index], 0, access=access)
        if part["offset"] + part["bytes"] > len(self.maps[index]):
            raise RuntimeError(f"{part} is outside of its memory")
        return ctypes.addressof(ctypes.c_char.from_buffer(self.maps[index], part["offset"]))

    def read(self, part):
        return ctypes.string_at(self.address(part), part["bytes"]) if part["bytes"] else b""


class Window:
    def __init__(self, torch, request, bulk, harness, subject):
        self.torch, self.request, self.bulk = torch, request, bulk
        self.harness, self.subject, self.window = harness, subject, request["window"]
        self.slots = Slots(len(request["contents"]), request["slots"])
        self.outputs, self.copied_ns, self.cost, self.energy_mj = [], 0, [], None
        kept = [] if self.window["masters_on_host"] else request["contents"]
        self.contents = [self.tensors() for _ in kept]
        for content, parts in zip(self.contents, kept):
            for tensor, part in zip(content, parts):
                harness.upload(tensor.data_ptr(), bulk.address(part), part["bytes"])
        self.sets = [self.tensors() for _ in range(self.window["sets"])]

    def tensors(self):
        """Room for the inputs."""

        def room(form):
            dtype = getattr(self.torch, DTYPES[form["dtype"]])
            return self.torch.empty(form["extents"], dtype=dtype, device="cuda")

        return [room(form) for form in self.request["inputs"]]

    def run(self):
        self.timed_part("first_calls", self.first_calls)
        self.timed_part("warm_up", self.warm_up)
        window, part = self.window, self.timed_part
        cold_specs, least = window["cold_samples"], window["samples_min"]
        cold = part("cold", lambda: self.take("cold", cold_specs, least))
        warm_specs = [{"set": 0, "content": 0}] * window["warm_samples"]
        warm = part("warm", lambda: self.take("warm", warm_specs, 1))
        part("energy", self.count_energy)
        self.check_inputs()
        return cold, warm

    def timed_part(self, name, work):
        started = time.monotonic()
        found = work()
        self.cost.append({"part": name, "ms": 1e3 * (time.monotonic() - started)})
        return found

    def first_calls(self):
        """What compiles, tunes or loads does it here."""
        for at in range(self.window["sets"]):
            self.refill({"set": at, "content": 0})
        for at in range(FIRST_CALLS):
            self.call(at % self.window["sets"])
        # Kernels are loaded at their first launch, which must not be behind a closed gate.
        self.harness.scrub_shared()
        self.harness.flush()
        self.hash_outputs(None)
        self.harness.wait()
        self.harness.take_hashes()
        self.harness.spin(YARDSTICK_MS)
        gated = "close_gate" in self.window["cold_operations"]
        self.pair_ns = self.harness.event_pair_ns(EVENT_PAIRS, gated)

    def warm_up(self):
        """Runs until nothing was compiled for a while and the clocks are up."""
        started, known, since, changes, at = time.monotonic(), compiles(self.torch), 0, 0, 0
        while True:
            self.call(at % self.window["sets"])
            at, since, found = at + 1, since + 1, compiles(self.torch)
            if found != known:
                started, known, since, changes = time.monotonic(), found, 0, changes + 1
                if changes > COMPILES_MAX:
                    raise Unfit("it is compiled again and again")
            long_enough = 1e3 * (time.monotonic() - started) >= self.window["warm_up_ms"]
            if at >= self.window["sets"] and since >= CALLS_AFTER_COMPILE and long_enough:
                return

    def call(self, at):
        spec = {"set": at, "content": 0}
        self.poison(spec)
        self.plan(spec)
        self.harness.wait()

    def take(self, kind, specs, least):
        operations, budget_ns = self.window[f"{kind}_operations"], self.window["budget_ms"] * 10**6
        take = lambda spec: self.sample(operations, spec)
        clock, copied = time.monotonic_ns, lambda: self.copied_ns
        return series(specs, least, budget_ns, self.slots, take, clock, copied)

    def sample(self, operations, spec):
        sample, harness = None, self.harness
        perform = {
            # The framework keeps what it keeps; nothing of ours has variables.
            "reset_module": lambda spec: None,
            "refill": self.refill,
            "poison": self.poison,
            "scrub_shared": lambda spec: harness.scrub_shared(),
            "flush_cache": lambda spec: harness.flush(),
            "close_gate": lambda spec: harness.close_gate(),
            "start_event": lambda spec: harness.start(),
            "plan": self.plan,
            "stop_event": lambda spec: harness.stop(),
            "hash_outputs": self.hash_outputs,
            "open_gate": lambda spec: harness.open_gate(),
            "wait": self.finish,
        }
        for operation in operations:
            sample = perform[operation](spec)
        return sample

    def count_energy(self):
        """Repeats the subject until the card's counter has moved enough."""
        least_ms, counter = self.window["energy_ms"], energy_counter(self.request["gpu_uuid"])
        if not least_ms or counter is None or counter() is None:
            return
        started, readings, calls, batch = time.monotonic(), [], 0, 1
        elapsed_ms = lambda: 1e3 * (time.monotonic() - started)
        while self.energy_mj is None and elapsed_ms() < ENERGY_PATIENCE * least_ms:
            before = elapsed_ms()
            for call in range(calls, calls + batch):
                self.plan({"set": call % self.window["sets"], "content": 0})
            self.harness.wait()
            calls += batch
            readings.append((elapsed_ms(), calls, counter()))
            self.energy_mj = per_call_mj(readings, least_ms)
            wanted = batch * ENERGY_BATCH_MS / max(elapsed_ms() - before, 1e-3)
            batch = min(max(int(wanted), 1), ENERGY_BATCH_CALLS_MAX)

    def refill(self, spec):
        for index, to in enumerate(self.sets[spec["set"]]):
            self.fill_input(to, spec["content"], index)

    def fill_input(self, to, content, index):
        """From where the content is kept."""
        if self.contents:
            source = self.contents[content][index].data_ptr()
            self.harness.move(to.data_ptr(), source, to.nbytes)
        else:
            part = self.request["contents"][content][index]
            self.harness.upload(to.data_ptr(), self.bulk.address(part), part["bytes"])

    def poison(self, spec):
        """Overwrites the last outputs; their memory is what the next call is given."""
        for output in self.outputs:
            self.harness.fill(output.data_ptr(), POISON, output.nbytes)
        self.outputs = []

    def plan(self, spec):
        with self.torch.no_grad():
            outputs = self.subject(*self.sets[spec["set"]])
        self.outputs = checked(self.torch, outputs, self.request["outputs"])

    def hash_outputs(self, spec):
        for index, output in enumerate(self.outputs):
            key = output_key(self.window["hash_key"], index)
            self.harness.hash(output.data_ptr(), output.nbytes, key)

    def finish(self, spec):
        self.harness.wait()
        elapsed_ns, clock, late = self.harness.timed()
        found, content = combined_hash(self.harness.take_hashes()), spec["content"]
        started = time.monotonic_ns()
        if self.slots.wants(content, found):
            self.copy_out(content, found)
        self.copied_ns += time.monotonic_ns() - started
        return {
            "content": content, "elapsed_ns": elapsed_ns, "sm_clock_hz": clock, "ungated": late,
            "hash": found,
        }

    def copy_out(self, content, found):
        before = len(self.slots.held) * self.request["slot_bytes"]
        for output, room in zip(self.outputs, self.request["rooms"]):
            part = {**room, "offset": room["offset"] + before}
            if output.nbytes != room["bytes"]:
                raise Unfit(f"an output has {output.nbytes} bytes, the task wants {room['bytes']}")
            host = self.bulk.address(part, writable=True)
            self.harness.download(host, output.data_ptr(), output.nbytes)
        self.slots.held.append((content, found))

    def check_inputs(self):
        """Inputs must be what they were filled with."""
        key = self.window["hash_key"]
        for index, form in enumerate(self.request["inputs"]):
            for tensors in self.sets:
                self.harness.hash(tensors[index].data_ptr(), tensors[index].nbytes, key)
            # What the sets hold is known by now, so one of them can hold each content once more.
            first = self.sets[0][index]
            for content in range(len(self.request["contents"])):
                self.fill_input(first, content, index)
                self.harness.hash(first.data_ptr(), first.nbytes, key)
            self.harness.wait()
            hashes = self.harness.take_hashes()
            masters = hashes[len(self.sets) :]
            if not all(found in masters for found in hashes[: len(self.sets)]):
                raise Unfit(f"it changed its input `{form['name']}`")
