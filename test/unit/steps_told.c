#include "test/unit/steps_told.h"

#include <stdlib.h>
#include <string.h>
#include "core/pipeline.h"
#include "core/request.h"

struct steps_told {
    uint32_t size;
    struct gpucoll_team_board boards[GPUCOLL_MAX_LOCAL];
    struct gpucoll_team teams[GPUCOLL_MAX_LOCAL];
    struct gpucoll_request requests[GPUCOLL_MAX_LOCAL];
};

struct steps_told *steps_told_open(uint32_t ranks)
{
    struct steps_told *told = aligned_alloc(_Alignof(struct steps_told), sizeof *told);
    if (told == NULL) {
        abort();
    }
    memset(told, 0, sizeof *told);
    told->size = ranks;
    for (uint32_t r = 0; r < ranks; r++) {
        struct gpucoll_team *team = &told->teams[r];
        team->rank = r;
        team->size = ranks;
        team->board = &told->boards[r];
        for (uint32_t i = 0; i < ranks; i++) {
            team->members[i].board = &told->boards[i];
        }
        told->requests[r].team = team;
    }
    return told;
}

void steps_told_close(struct steps_told *ranks)
{
    free(ranks);
}

void steps_told_begin(struct steps_told *ranks, uint64_t call)
{
    for (uint32_t r = 0; r < ranks->size; r++) {
        ranks->requests[r].call = call;
    }
}

void steps_told_tell(struct steps_told *ranks, uint32_t rank, uint32_t sent)
{
    gpucoll_pipeline_tell(&ranks->requests[rank], GPUCOLL_FLOW_SENT, sent);
}

uint64_t steps_told_apart_ns(const struct steps_told *ranks, uint32_t rank, uint32_t sent)
{
    return gpucoll_pipeline_apart_ns(&ranks->requests[rank], sent);
}
