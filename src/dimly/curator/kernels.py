"""Numba kernels of perturbing: noise by guide tables, bits toggled, rows to people, pairs counted.

Where noise is drawn and added, no branch depends on private data: which way a loop goes is decided by random words
and by the plan alone. Checking and toggling take as long as people have attributes.
"""

import numpy as np
from numpy.typing import NDArray

from dimly.compiled import compiled

RISING_ROWS, OTHER_ROWS, INVALID_ROWS = 0, 1, 2
"""What :func:`inspect_rows` finds: each attribute once and in order; valid but otherwise; not a matrix at all."""


@compiled
def inspect_rows(indptr: NDArray[np.int64], indices: NDArray[np.integer], width: int) -> int:
    """Check compressed sparse rows in one pass, where SciPy takes four; everything after relies on it.

    Most rows rise: that is asked first, without leaving the loop, so that it becomes vector instructions, and then the
    first and the last attribute are the smallest and the largest. Six times as fast as one attribute after another.
    """
    if indptr[0] < 0 or indptr[-1] > indices.size:
        return INVALID_ROWS
    state = RISING_ROWS
    for row in range(indptr.size - 1):
        start, stop = indptr[row], indptr[row + 1]
        if stop < start or stop > indices.size:
            return INVALID_ROWS
        if start == stop:
            continue
        falls = False
        for j in range(np.uint64(start + 1), np.uint64(stop)):
            falls |= indices[j] <= indices[j - np.uint64(1)]
        smallest, largest = indices[start], indices[stop - 1]
        if falls:
            state = OTHER_ROWS
            for j in range(start, stop):
                smallest, largest = min(smallest, indices[j]), max(largest, indices[j])
        if smallest < 0 or largest >= width:
            return INVALID_ROWS
    return state


GUIDED_AT_ONCE = 256
"""Samples that are looked up before they are added: their noise stays in the first cache."""
_RUN = 32


@compiled
def add_guided(
    sketch: NDArray[np.int64],
    words: NDArray[np.uint16],
    guide: NDArray[np.signedinteger],
    smallest: int,
    largest: int,
    out: NDArray[np.signedinteger],
    unsettled: NDArray[np.int64],
    noise: NDArray[np.int16],
    many_open: bool,
) -> int:
    """Add the noise that sixteen bits settle, saturate, and list what they do not settle.

    The guide has 2¹⁶ entries. Its last one marks those that settle nothing: 1111…1 never does. Noise that fits eight
    bits has a guide of 64 KiB, which stays nearer to the processor than one of 128. ``noise`` is room for some samples:
    looking up is one loop, which vector instructions make no faster, and adding another, which becomes vector
    instructions of whatever width there is. The list is written without a branch, because a mispredicted one would
    cost more than looking up; ``unsettled`` is one longer than ``sketch`` for that. As a rule most runs of 32 samples
    are settled, which a third loop finds out by vector instructions, too. ``many_open`` says that they are not: then
    the list is written while looking up, which takes half the time for a table of many values.
    """
    count = 0
    start = 0
    no_guide = np.int16(guide[guide.size - 1])
    while start < sketch.size:
        size = min(noise.size, sketch.size - start)
        exact, index, target = sketch[start : start + size], words[start : start + size], out[start : start + size]
        if many_open:
            for j in range(size):
                value = np.int16(guide[index[j]])
                unsettled[count] = start + j
                count += value == no_guide
                noise[j] = value  # last: the compiler cannot know that the list is other memory
        else:
            for j in range(size):
                noise[j] = guide[index[j]]
        for j in range(size):
            target[j] = min(max(exact[j] + noise[j], smallest), largest)
        for first in range(0, 0 if many_open else size, _RUN):
            last = min(first + _RUN, size)
            open_ones = np.int16(0)
            for j in range(first, last):
                open_ones += np.int16(noise[j] == no_guide)
            if open_ones != 0:
                for j in range(first, last):
                    unsettled[count] = start + j
                    count += noise[j] == no_guide
        start += size
    return count


@compiled
def prolong(
    begun: NDArray[np.uint16], below: int, settled: int, places: NDArray[np.int64], words: NDArray[np.uint64]
) -> None:
    """Begin each word with the sixteen bits that were drawn at its place; the bits after those stay as they are.

    The sixteen bits are counted among those that settle nothing: ``settled`` others follow after the first ``below``.
    """
    for j in range(places.size):
        prefix = np.int64(begun[places[j]])
        if prefix >= below:
            prefix -= settled
        words[j] = (np.uint64(prefix) << np.uint64(48)) | (words[j] & np.uint64(0xFFFFFFFFFFFF))


@compiled
def add_searched(
    sketch: NDArray[np.int64],
    places: NDArray[np.int64],
    high_words: NDArray[np.uint64],
    cell_high: NDArray[np.uint64],
    begin: NDArray[np.int32],
    shift: int,
    first_value: int,
    has_tails: bool,
    smallest: int,
    largest: int,
    out: NDArray[np.signedinteger],
    undecided: NDArray[np.int64],
) -> int:
    """Add noise by the upper half of 128-bit numbers, saturate, and list those that need the lower half or a tail.

    A number belongs to the first cell whose last number is not below it. Its upper half decides unless it equals that
    of a cell's last number, which happens once in 2⁴⁰ or less. ``begin`` holds, for each number that ``shift`` leaves
    of an upper half, the first cell that can have it, and one more entry at the end: the search is between two of them.
    """
    count = 0
    for j in range(places.size):
        high = high_words[j]
        slot = np.int64(high >> np.uint64(shift))
        left, right = np.int64(begin[slot]), np.int64(begin[slot + 1])
        while left < right:
            middle = (left + right) >> 1
            if cell_high[middle] < high:
                left = middle + 1
            else:
                right = middle
        undecided[count] = j
        count += (cell_high[left] == high) or (has_tails and (left == 0 or left == cell_high.size - 1))
        i = places[j]
        out[i] = min(max(sketch[i] + first_value + left, smallest), largest)
    return count


LANE_ROUNDS = 8
"""Leading bits that :func:`compare_lanes` looks at."""


@compiled
def compare_lanes(
    words: NDArray[np.uint64], masks: NDArray[np.uint64], below: NDArray[np.uint64], equal: NDArray[np.uint64]
) -> int:
    """Compare 64 uniform numbers in the lanes of each word with a threshold at once, by their leading bits.

    ``words`` has one row for each leading bit, ``masks`` all ones where the threshold has that bit. Lanes whose bits
    are below those of the threshold are set in ``below``, those still equal in ``equal``, whose number is returned:
    eight rounds settle all but 1/256 of the lanes with one byte for each. Unrolled, as their number is known, the
    rounds stay in registers and the loop over words becomes vector instructions: twice as fast as one pass a round,
    ten times as lane by lane.
    """
    count = 0
    for i in range(below.size):
        less = np.uint64(0)
        same = ~np.uint64(0)
        for r in range(LANE_ROUNDS):
            word = words[r, i]
            less |= same & ~word & masks[r]
            same &= ~(word ^ masks[r])
        below[i] = less
        equal[i] = same
        # How many bits are set, by adding neighbors: this, too, becomes vector instructions.
        same -= (same >> np.uint64(1)) & np.uint64(0x5555555555555555)
        same = (same & np.uint64(0x3333333333333333)) + ((same >> np.uint64(2)) & np.uint64(0x3333333333333333))
        same = (same + (same >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        same += same >> np.uint64(8)
        same += same >> np.uint64(16)
        count += int((same + (same >> np.uint64(32))) & np.uint64(0x7F))
    return count


@compiled
def settle_lanes(
    words: NDArray[np.uint64], rest: int, bits: int, below: NDArray[np.uint64], equal: NDArray[np.uint64]
) -> None:
    """Settle each equal lane by a word of its own, whose first ``bits`` are compared with the threshold's ``rest``."""
    at = 0
    for i in range(below.size):
        open_lanes = equal[i]
        while open_lanes != np.uint64(0):
            lane = open_lanes & (~open_lanes + np.uint64(1))  # the lowest one
            if (words[at] >> np.uint64(64 - bits)) < np.uint64(rest):
                below[i] |= lane
            at += 1
            open_lanes ^= lane


@compiled
def toggle_bits(rows: NDArray[np.uint8], indptr: NDArray[np.int64], indices: NDArray[np.integer]) -> None:
    """Invert the bits of each row that ``indices`` name; bit i is in byte i//8 as bit i%8."""
    for row in range(indptr.size - 1):
        for j in range(indptr[row], indptr[row + 1]):
            rows[row, indices[j] >> 3] ^= np.uint8(1 << (indices[j] & 7))


@compiled
def step_of(value: float, resolution: int) -> int:
    """Return a value as an integer in 0…resolution, whatever it is: NaN and what is below 0 count as nothing."""
    if not value > 0.0:
        return 0
    return resolution if value >= 1.0 else int(np.rint(value * resolution))


@compiled
def split_keys(
    keys: NDArray[np.uint64], people: NDArray[np.uint64], counts: NDArray[np.int32], codes: NDArray[np.int32]
) -> tuple[int, int]:
    """Divide keys (person << 32 | code + 1), which do not fall, into people, how many codes each has, and the codes.

    Repeats count once, and a lower half of 0 names a person without a code. The arrays are as long as the keys; return
    how many people and how many codes were written.
    """
    n_people = n_codes = 0
    for i in range(keys.size):
        key = keys[i]
        if i and key == keys[i - 1]:
            continue
        person, code = key >> np.uint64(32), key & np.uint64(0xFFFFFFFF)
        if n_people == 0 or people[n_people - 1] != person:
            people[n_people] = person
            counts[n_people] = 0
            n_people += 1
        if code:
            counts[n_people - 1] += 1
            codes[n_codes] = np.int32(code - np.uint64(1))
            n_codes += 1
    return n_people, n_codes


@compiled
def join_keys(
    people: NDArray[np.int64],
    counts: NDArray[np.int32],
    codes: NDArray[np.int32],
    ranks: NDArray[np.int64],
    keys: NDArray[np.int64],
) -> None:
    """Write keys (person << 32 | rank of the code) of rows in the order of people, who have ``counts`` of them each.

    Without ranks codes stand for themselves.
    """
    row = 0
    for i in range(people.size):
        person = people[i] << 32
        for _ in range(counts[i]):
            keys[row] = person | (ranks[codes[row]] if ranks.size else np.int64(codes[row]))
            row += 1


@compiled
def rows_of_sorted(
    keys: NDArray[np.int64],
    values: NDArray[np.float64] | None,
    first_user: int,
    resolution: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    steps: NDArray[np.int64],
) -> bool:
    """Write rows, whose keys (user << 32 | attribute) rise, as compressed sparse rows without repeats.

    Of several values of one attribute the largest is kept. ``indices`` and ``steps`` are as long as the keys; what
    lies beyond ``indptr[-1]`` is not written. False if the keys do not rise, or are of people who are not here.
    """
    count = 0
    row = 0
    indptr[0] = 0
    last = (np.int64(first_user) << 32) - 1
    beyond = np.int64(first_user + indptr.size - 1) << 32
    for i in range(keys.size):
        key = keys[i]
        if key <= last:
            if key < last or count == 0:
                return False
            if values is not None:
                steps[count - 1] = max(steps[count - 1], step_of(values[i], resolution))
            continue
        if key >= beyond:
            return False
        last = key
        user = (key >> 32) - first_user
        while row < user:
            row += 1
            indptr[row] = count
        indices[count] = key & 0xFFFFFFFF
        if values is not None:
            steps[count] = step_of(values[i], resolution)
        count += 1
    while row < indptr.size - 1:
        row += 1
        indptr[row] = count
    return True


@compiled
def pair_distances(
    indptr: NDArray[np.int64],
    indices: NDArray[np.integer],
    values: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Write the squared distance of people 0 and 1, 2 and 3, …, whose attributes rise, in steps of the resolution.

    ``values`` is empty for bits.
    """
    bits = values.size == 0
    for pair in range(out.size):
        one, end_of_one = indptr[2 * pair], indptr[2 * pair + 1]
        other, end_of_other = end_of_one, indptr[2 * pair + 2]
        total = 0
        while one < end_of_one or other < end_of_other:
            difference = 1
            if other == end_of_other or (one < end_of_one and indices[one] < indices[other]):
                if not bits:
                    difference = values[one]
                one += 1
            elif one == end_of_one or indices[other] < indices[one]:
                if not bits:
                    difference = values[other]
                other += 1
            else:
                difference = 0 if bits else values[one] - values[other]
                one += 1
                other += 1
            total += difference * difference
        out[pair] = total


@compiled
def count_pairs(
    indptr: NDArray[np.int64],
    indices: NDArray[np.integer],
    column: NDArray[np.int32],
    keys: NDArray[np.uint64],
    members: int,
    counts: NDArray[np.int64],
) -> None:
    """Count, above the diagonal of ``counts``, in how many people two columns meet.

    ``column`` is the column of each attribute, −1 for those that do not count. Of each person ``members`` columns count
    at most: the first in an order that the person's public key gives to all columns (by SplitMix64, which is one to
    one, so that no two columns are at the same place).
    """
    for person in range(indptr.size - 1):
        found = column[indices[indptr[person] : indptr[person + 1]]]
        found = np.unique(found[found >= 0])
        if found.size > members:
            place = keys[person] + (found.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
            place = (place ^ (place >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            place = (place ^ (place >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            place = place ^ (place >> np.uint64(31))
            found = np.sort(found[np.argsort(place)[:members]])
        for i in range(found.size):
            for j in range(i + 1, found.size):
                counts[found[i], found[j]] += 1
