#include "core/rail/rail_model.h"

#include "core/base/sizes.h"
#include "core/rail/rail_run.h"

enum {
    LATENCY_NS = 5000, /* until a small message is there, with the looks of both sides */
    MESSAGE_NS = 1000, /* of a message among others: what both sides have to do for it */
    WIRE_NS_PER_KIB = 82,
    REDUCE_NS_PER_KIB = 102,
    FAR_PERCENT = 125,
    SMALLEST_PIECE = 16 << 10 /* smaller ones are sent by copying, and a cache line of head for each counts */
};

uint32_t gpucoll_rail_rounds(uint32_t size)
{
    uint32_t rounds = 0;
    while (rounds < 32 && ((uint64_t)1 << rounds) < size) {
        rounds++;
    }
    return rounds;
}

uint64_t gpucoll_rail_far(uint32_t size, uint64_t bytes)
{
    return size > 2 ? bytes / 100 * FAR_PERCENT : bytes;
}

static uint64_t wire_ns(uint64_t bytes)
{
    return bytes / 64 * WIRE_NS_PER_KIB / 16;
}

static uint64_t reduce_ns(uint64_t bytes)
{
    return bytes / 64 * REDUCE_NS_PER_KIB / 16;
}

uint64_t gpucoll_rail_step_ns(uint64_t bytes, uint32_t reduces)
{
    const uint64_t piece = bytes < GPUCOLL_RAIL_SEGMENT ? bytes : GPUCOLL_RAIL_SEGMENT;
    return LATENCY_NS + wire_ns(piece) + reduces * reduce_ns(piece) +
           gpucoll_larger(wire_ns(bytes - piece), reduces * reduce_ns(bytes - piece));
}

static uint64_t square_root(uint64_t of)
{
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 31; bit > 0; bit /= 2) {
        const uint64_t larger = root + bit;
        root = larger * larger <= of ? larger : root;
    }
    return root;
}

uint32_t gpucoll_rail_piece(uint64_t bytes, uint32_t hops)
{
    const uint64_t pieces = square_root(hops * (wire_ns(bytes) / MESSAGE_NS)) + 1;
    uint64_t piece = bytes / pieces / GPUCOLL_RAIL_ALIGN * GPUCOLL_RAIL_ALIGN;
    if (piece < SMALLEST_PIECE) {
        piece = SMALLEST_PIECE;
    }
    return (uint32_t)(piece < GPUCOLL_RAIL_SEGMENT ? piece : GPUCOLL_RAIL_SEGMENT);
}

uint64_t gpucoll_rail_pipeline_ns(uint64_t bytes, uint32_t hops, uint32_t sends, uint32_t reduces)
{
    const uint64_t segment = gpucoll_rail_piece(bytes, hops);
    const uint64_t piece = bytes < segment ? bytes : segment;
    const uint64_t first = hops * (LATENCY_NS + wire_ns(piece) + (reduces > 0 ? reduce_ns(piece) : 0));
    const uint64_t others = (bytes - piece + segment - 1) / segment * MESSAGE_NS + wire_ns(bytes - piece);
    return first + gpucoll_larger(sends * others, reduces * reduce_ns(bytes - piece));
}
