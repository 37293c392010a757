#include "test/unit/exchange_part.h"
#include <algorithm>
#include <cstring>
#include <numeric>

const std::vector<Kind> kinds = {
    {GPUCOLL_ALLGATHER, ALL_TO_ALL, false, true, false},
    {GPUCOLL_ALLGATHERV, ALL_TO_ALL, false, true, true},
    {GPUCOLL_ALLTOALL, ALL_TO_ALL, true, true, false},
    {GPUCOLL_ALLTOALLV, ALL_TO_ALL, true, true, true},
    {GPUCOLL_ALLTOALLW, ALL_TO_ALL, true, true, true},
    {GPUCOLL_BCAST, FROM_ROOT, false, false, false},
    {GPUCOLL_EXSCAN, UPWARDS, false, false, false},
    {GPUCOLL_GATHER, TO_ROOT, false, true, false},
    {GPUCOLL_GATHERV, TO_ROOT, false, true, true},
    {GPUCOLL_NEIGHBOR_ALLTOALLV, ALL_TO_ALL, true, true, true},
    {GPUCOLL_REDUCE, TO_ROOT, false, false, false},
    {GPUCOLL_REDUCE_SCATTER, ALL_TO_ALL, true, false, true},
    {GPUCOLL_REDUCE_SCATTER_BLOCK, ALL_TO_ALL, true, false, false},
    {GPUCOLL_SCAN, UPWARDS, false, false, false},
    {GPUCOLL_SCATTER, FROM_ROOT, true, false, false},
    {GPUCOLL_SCATTERV, FROM_ROOT, true, false, true},
};

bool can_be_in_place(gpucoll_coll coll)
{
    return coll != GPUCOLL_BCAST;
}

void check(Rank &rank, const ExchangeCall &call)
{
    ExchangePart part(call, rank.number, rank.meeting.size);
    gpucoll_status status = rank.call(part.args());
    EXPECT_EQ(status, GPUCOLL_OK) << part.text() << ": " << gpucoll_status_name(status);
    EXPECT_TRUE(part.right()) << part.text();
}

void check_both_places(Rank &rank, ExchangeCall call)
{
    check(rank, call);
    call.in_place = true;
    call.offset = 1 + call.count % 7;
    check(rank, call);
}

const Kind &kind_of(gpucoll_coll coll)
{
    const auto kind =
        std::find_if(kinds.begin(), kinds.end(), [coll](const Kind &row) { return row.coll == coll; });
    return kinds.at(static_cast<size_t>(kind - kinds.begin()));
}

ExchangeCall call_of(const Kind &kind, size_t count)
{
    ExchangeCall call;
    call.kind = kind;
    call.count = count;
    call.type = gpucoll_coll_reduces(kind.coll) ? GPUCOLL_INT32 : GPUCOLL_UINT8;
    return call;
}
