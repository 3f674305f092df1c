"""Numba kernels of numbering: distinct texts and integers by hash tables, and keys put into buckets.

A hash only says where to look first: values are the same if they are equal. Loads that would wait for memory are made
side by side, in loops of their own.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dimly.compiled import compiled

MOST_PROBES: Final = 1 << 10
"""Slots that are looked at for one value: more than any hash of honest values needs."""
DONE, FULL, CROWDED = 0, 1, 2
COUNT, USED, AT, END = 0, 1, 2, 3
"""What kernels keep of themselves: how many values there are, words of text, rows that are numbered, why they ended."""
PLACE: Final = np.uint64((1 << 40) - 1)
AT_FIELD, IN_FIELD, IN_QUOTES, ESCAPED, AFTER_QUOTE = 0, 1, 2, 3, 4
"""Places in a CSV file: where a field begins, within it, within quotes, after an escape, after what may end them."""


@compiled
def _eight_bytes(data: NDArray[np.uint8], at: np.uint64) -> np.uint64:
    """Return eight bytes as a little-endian integer; compilers make one load of it."""
    word = np.uint64(0)
    for byte in range(8):
        word |= np.uint64(data[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return word


@compiled
def _word_at(data: NDArray[np.uint8], at: np.uint64, left: int, masks: NDArray[np.uint64]) -> np.uint64:
    """Return the next eight bytes of a text as an integer, of whose bytes ``left`` are left: zeros after the last."""
    left = min(max(left, 0), 8)
    if at + np.uint64(8) <= np.uint64(data.size):  # all but the last texts: one load and a mask
        kept: np.uint64 = _eight_bytes(data, at) & masks[left]
        return kept
    word = np.uint64(0)
    for byte in range(left):
        word |= np.uint64(data[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return word


@compiled
def _first_bytes() -> NDArray[np.uint64]:
    """Return masks of the first 0, 1, …, 8 bytes of a word."""
    masks = np.empty(9, np.uint64)
    for size in range(8):
        masks[size] = (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
    masks[8] = ~np.uint64(0)
    return masks


@compiled
def hash_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8], out: NDArray[np.uint64]) -> None:
    """Write a hash of each text: of its length and its words of eight bytes, multiplied and folded one by one.

    A fifth of SipHash's time, because texts may collide here: whoever makes up such texts makes publishing slower.
    """
    factor = np.uint64(0x9E3779B97F4A7C15)
    masks = _first_bytes()
    for i in range(out.size):
        at, left = np.uint64(offsets[i]), offsets[i + 1] - offsets[i]
        mixed = np.uint64(left) * factor
        while left > 0:
            mixed = (mixed ^ _word_at(data, at, left, masks)) * factor
            mixed ^= mixed >> np.uint64(29)
            at += np.uint64(8)
            left -= 8
        mixed = (mixed ^ (mixed >> np.uint64(32))) * factor
        out[i] = mixed ^ (mixed >> np.uint64(29))


@compiled
def _words_of(length: int) -> int:
    """Return how many words an entry takes: two, and those of the text, of which short ones take two, too."""
    return 2 + max(2, (length + 7) // 8)


@compiled
def _is_text(
    arena: NDArray[np.uint64],
    entry: np.uint64,
    data: NDArray[np.uint8],
    start: int,
    stop: int,
    masks: NDArray[np.uint64],
) -> bool:
    """Return whether the arena has this text at an entry. Up to sixteen bytes are compared without a branch."""
    at, left = np.uint64(start), stop - start
    differs = (arena[entry] & np.uint64(0xFFFFFFFF)) ^ np.uint64(left)
    if left <= 16 and at + np.uint64(16) <= np.uint64(data.size):
        differs |= arena[entry + np.uint64(2)] ^ (_eight_bytes(data, at) & masks[min(left, 8)])
        differs |= arena[entry + np.uint64(3)] ^ (_eight_bytes(data, at + np.uint64(8)) & masks[max(left - 8, 0)])
        return bool(differs == np.uint64(0))
    if differs != np.uint64(0):
        return False
    while left > 0:
        if arena[entry + np.uint64(2)] != _word_at(data, at, left, masks):
            return False
        at += np.uint64(8)
        entry += np.uint64(1)
        left -= 8
    return True


_AT_ONCE = 256
"""Values that are looked up together: their places are loaded from memory at the same time."""


@compiled
def _look_up(hashes: NDArray[np.uint64], slots: NDArray[np.uint64], places: NDArray[np.uint64]) -> None:
    """Write what the slot of each hash has, or the first of the next few that has the hash's last bits or nothing.

    Two loops, so that all slots are loaded side by side: one after another would take ten times as long.
    """
    mask = np.uint64(slots.size - 1)
    for i in range(hashes.size):
        places[i] = slots[(hashes[i] >> np.uint64(24)) & mask]
    for i in range(hashes.size):
        slot = hashes[i] >> np.uint64(24)
        for _ in range(16):
            if places[i] == np.uint64(0) or (places[i] >> np.uint64(40)) == (hashes[i] & np.uint64(0xFFFFFF)):
                break
            slot += np.uint64(1)
            places[i] = slots[slot & mask]


@compiled
def _slot_of_text(
    digest: np.uint64,
    slots: NDArray[np.uint64],
    arena: NDArray[np.uint64],
    data: NDArray[np.uint8],
    start: int,
    stop: int,
    masks: NDArray[np.uint64],
) -> np.int64:
    """Return the slot that has a text, or the empty one where it belongs; −1 if too many others are in its way."""
    slot = digest >> np.uint64(24)
    for _ in range(MOST_PROBES):
        slot &= np.uint64(slots.size - 1)
        place = slots[slot]
        entry = (place & PLACE) - np.uint64(1)
        if place == np.uint64(0) or (
            (place >> np.uint64(40)) == (digest & np.uint64(0xFFFFFF))
            and _is_text(arena, entry, data, start, stop, masks)
        ):
            return np.int64(slot)
        slot += np.uint64(1)
    return np.int64(-1)


@compiled
def number_texts(
    offsets: NDArray[np.int64],
    data: NDArray[np.uint8],
    hashes: NDArray[np.uint64],
    slots: NDArray[np.uint64],
    arena: NDArray[np.uint64],
    counts: NDArray[np.uint32],
    state: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Write the number of each text from row ``state[AT]`` on; end early if one is new and there is no room for it.

    A slot has the last 24 bits of the hash and one more than the place of the entry in the arena, or zero. An entry has
    the number and the length of a text, its hash, and its bytes.
    """
    none, one = np.uint64(0), np.uint64(1)
    last = np.uint64(arena.size - 1)
    places = np.empty(_AT_ONCE, np.uint64)
    heads = np.empty(_AT_ONCE, np.uint64)
    masks = _first_bytes()
    count, used, begin = state[COUNT], state[USED], state[AT]
    state[END] = DONE
    while begin < found.size and state[END] == DONE:
        stop = min(begin + _AT_ONCE, found.size)
        _look_up(hashes[begin:stop], slots, places)
        for i in range(stop - begin):  # no matter what is there: entries are loaded, side by side
            entry = (places[i] - one) & PLACE
            heads[i] = arena[min(entry, last)] ^ arena[min(entry + np.uint64(3), last)]
        for i in range(begin, stop):
            place = places[i - begin]
            entry = (place & PLACE) - one
            if place == none or not _is_text(arena, entry, data, offsets[i], offsets[i + 1], masks):
                slot = _slot_of_text(hashes[i], slots, arena, data, offsets[i], offsets[i + 1], masks)
                words = _words_of(offsets[i + 1] - offsets[i])
                if slot < 0:
                    state[END] = CROWDED
                elif slots[slot] == none:
                    if count >= counts.size or used + words > arena.size or 2 * count >= slots.size:
                        state[END] = FULL
                    else:
                        slots[slot] = (hashes[i] << np.uint64(40)) | np.uint64(used + 1)
                        arena[used + 1] = hashes[i]
                        _put_text(arena, used, count, data, offsets[i], offsets[i + 1], masks)
                        used += words
                        count += 1
                if state[END] != DONE:
                    stop = i
                    break
                entry = (slots[slot] & PLACE) - one
            found[i] = arena[entry] >> np.uint64(32)
        _count(found[begin:stop], counts)
        begin = stop
    state[COUNT], state[USED], state[AT] = count, used, begin


@compiled
def _put_text(
    arena: NDArray[np.uint64],
    used: int,
    number: int,
    data: NDArray[np.uint8],
    start: int,
    stop: int,
    masks: NDArray[np.uint64],
) -> None:
    """Write the number, the length and the bytes of a text."""
    left = stop - start
    arena[used] = (np.uint64(number) << np.uint64(32)) | np.uint64(left)
    for word in range(_words_of(left) - 2):
        arena[used + 2 + word] = _word_at(data, np.uint64(start + 8 * word), left - 8 * word, masks)


@compiled
def _count(found: NDArray[np.int64], counts: NDArray[np.uint32]) -> None:
    """Count numbers, as far as 32 bits go."""
    for i in range(found.size):
        counts[found[i]] += counts[found[i]] != np.uint32(0xFFFFFFFF)


@compiled
def text_places(arena: NDArray[np.uint64], hashes: NDArray[np.uint64], places: NDArray[np.int64]) -> None:
    """Write the hash of each entry of an arena, and its place."""
    at = 0
    for number in range(places.size):
        hashes[number], places[number] = arena[at + 1], at
        at += _words_of(int(np.int64(arena[at] & np.uint64(0xFFFFFFFF))))


@compiled
def fill_slots(hashes: NDArray[np.uint64], places: NDArray[np.int64], slots: NDArray[np.uint64]) -> bool:
    """Fill empty slots with entries; False if too many of them want the same place."""
    for number in range(hashes.size):
        slot, probes = hashes[number] >> np.uint64(24), 1
        while slots[slot & np.uint64(slots.size - 1)] != np.uint64(0):
            slot += np.uint64(1)
            probes += 1
            if probes > MOST_PROBES:
                return False
        slots[slot & np.uint64(slots.size - 1)] = (hashes[number] << np.uint64(40)) | np.uint64(places[number] + 1)
    return True


@compiled
def text_offsets(arena: NDArray[np.uint64], used: int, offsets: NDArray[np.int64]) -> int:
    """Write where each text of an arena begins if all are written one after another; return their length."""
    at, number, total = 0, 0, 0
    while at < used:
        offsets[number] = total
        length = int(np.int64(arena[at] & np.uint64(0xFFFFFFFF)))
        total += length
        number += 1
        at += _words_of(length)
    offsets[number] = total
    return total


@compiled
def copy_texts(arena: NDArray[np.uint64], offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> None:
    """Write the texts of an arena one after another."""
    at = 0
    for number in range(offsets.size - 1):
        start, stop = offsets[number], offsets[number + 1]
        for byte in range(stop - start):
            data[start + byte] = (arena[at + 2 + byte // 8] >> np.uint64(8 * (byte % 8))) & np.uint64(0xFF)
        at += _words_of(stop - start)


@compiled
def hash_integers(integers: NDArray[np.int64], out: NDArray[np.uint64]) -> None:
    """Write a hash of each integer, which is one to one and whose middle bits are spread."""
    for i in range(out.size):
        mixed = np.uint64(integers[i]) * np.uint64(0x9E3779B97F4A7C15)
        out[i] = mixed ^ (mixed >> np.uint64(32))


@compiled
def _slot_of_integer(value: int, digest: np.uint64, slots: NDArray[np.uint64], values: NDArray[np.int64]) -> np.int64:
    """Return the slot that has an integer, or the empty one where it belongs; −1 if too many others are in its way."""
    slot = digest >> np.uint64(24)
    for _ in range(MOST_PROBES):
        slot &= np.uint64(slots.size - 1)
        place = slots[slot]
        if place == np.uint64(0) or values[(place & PLACE) - np.uint64(1)] == value:
            return np.int64(slot)
        slot += np.uint64(1)
    return np.int64(-1)


@compiled
def number_integers(
    integers: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    slots: NDArray[np.uint64],
    values: NDArray[np.int64],
    counts: NDArray[np.uint32],
    state: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Write the number of each integer from row ``state[AT]`` on, as :func:`number_texts` does of texts.

    A slot has the last 24 bits of the hash and one more than the number of a value, or zero.
    """
    none, one = np.uint64(0), np.uint64(1)
    places = np.empty(_AT_ONCE, np.uint64)
    heads = np.empty(_AT_ONCE, np.int64)
    count, begin = state[COUNT], state[AT]
    state[END] = DONE
    while begin < found.size and state[END] == DONE:
        stop = min(begin + _AT_ONCE, found.size)
        _look_up(hashes[begin:stop], slots, places)
        for i in range(stop - begin):
            heads[i] = values[max(places[i] & PLACE, one) - one]
        for i in range(begin, stop):
            place = places[i - begin]
            if place == none or heads[i - begin] != integers[i]:
                slot = _slot_of_integer(integers[i], hashes[i], slots, values)
                if slot < 0:
                    state[END] = CROWDED
                elif slots[slot] == none:
                    if count >= values.size or 2 * count >= slots.size:
                        state[END] = FULL
                    else:
                        values[count] = integers[i]
                        count += 1
                        slots[slot] = (hashes[i] << np.uint64(40)) | np.uint64(count)
                if state[END] != DONE:
                    stop = i
                    break
                place = slots[slot]
            found[i] = (place & PLACE) - one
        _count(found[begin:stop], counts)
        begin = stop
    state[COUNT], state[AT] = count, begin


@compiled
def number_range(integers: NDArray[np.int64], least: int, counts: NDArray[np.uint32], found: NDArray[np.int64]) -> bool:
    """Write each integer's distance from the least one, and count it; False if one lies outside."""
    right = True
    for i in range(integers.size):
        number = np.uint64(integers[i]) - np.uint64(least)
        if number >= np.uint64(counts.size):
            return False
        counts[number] += counts[number] != np.uint32(0xFFFFFFFF)
        found[i] = number
    return right


@compiled
def part_keys(
    keys: NDArray[np.int64], first: int, shift: int, starts: NDArray[np.int64], out: NDArray[np.int64]
) -> None:
    """Write keys bucket after bucket, and where each bucket starts; ``starts`` is zero before."""
    for i in range(keys.size):
        starts[((keys[i] - first) >> shift) + 1] += 1
    for bucket in range(1, starts.size):
        starts[bucket] += starts[bucket - 1]
    at = starts.copy()
    for i in range(keys.size):
        bucket = (keys[i] - first) >> shift
        out[at[bucket]] = keys[i]
        at[bucket] += 1


@compiled
def renumber(
    keys: NDArray[np.int64], users: NDArray[np.int32], attributes: NDArray[np.int32], out: NDArray[np.int64]
) -> int:
    """Write keys with other numbers for users and attributes, without those that have a negative one; return how many.

    A key has the user in its upper and the attribute in its lower 32 bits.
    """
    count = 0
    for i in range(keys.size):
        user, attribute = np.int64(users[keys[i] >> 32]), np.int64(attributes[keys[i] & 0xFFFFFFFF])
        out[count] = (user << 32) | attribute
        count += int((user >= 0) & (attribute >= 0))
    return count


@compiled
def place_in_csv(data: NDArray[np.uint8], place: int, delimiter: int, quote: int, escape: int) -> int:
    """Return where a CSV file is after some more of its bytes; quotes that open in the midst of a field are text."""
    for byte in data:
        if place == IN_QUOTES:
            if byte == quote:  # the end, or the first of two
                place = AFTER_QUOTE
            elif byte == escape:
                place = ESCAPED
        elif place == ESCAPED:
            place = IN_QUOTES
        elif byte in (delimiter, 10, 13):
            place = AT_FIELD
        elif byte == quote and (place == AT_FIELD or (place == AFTER_QUOTE and escape == quote)):
            place = IN_QUOTES
        elif byte != 32:  # spaces around quotes
            place = IN_FIELD
    return place
