"""Checks of the schedule's pure parts; values of the Rust side come as an argument."""

rust = json.loads(sys.argv[1])
done = 0


def check(holds, what):
    global done
    done += 1
    if not holds:
        sys.exit(what)


check([output_key([MASK, 12], it) for it in range(3)] == rust["keys"], "keys of outputs")
check(combined_hash([[1, MASK], [MASK, 7]]) == rust["combined"], "combined hashes")

slots = Slots(2, 3)
for wanted, content, found in [(True, 0, 1), (True, 0, 2), (False, 0, 3), (True, 1, 9)]:
    if slots.wants(content, found) != wanted:
        sys.exit(f"slot for {content}, {found}")
    if wanted:
        slots.held.append((content, found))
check(not slots.wants(0, 1) and slots.cannot_verify(0), "a content keeps the last slot for another")
check(not slots.cannot_verify(1), "outputs that are the same each time need no slot")

now, late = [0], lambda: 0


def taken(count, least, budget, copying=0):
    """Samples of `count`, each of which takes 10."""
    now[0], copies, specs = 0, [0], [{"content": it % 4 == 3} for it in range(count)]

    def take(spec):
        now[0] += 10 + copying
        copies[0] += copying
        return {"content": int(spec["content"])}

    return len(series(specs, least, budget, Slots(2, 9), take, lambda: now[0], lambda: copies[0]))


check([taken(8, 0, 10**9), taken(8, 0, 30), taken(8, 5, 30)] == [8, 3, 6], "least and budget")
check(taken(8, 0, 30, copying=100) == 3, "copying out does not count")
steps = [tuple(reading) for reading in rust["readings"]]
check(per_call_mj(steps, 200) == rust["per_call_mj"], "energy between two steps of the counter")
check([per_call_mj(it, 200) for it in [[], steps[:15], steps[:1] * 60]] == [None] * 3, "no energy")
print(done, "checks")
