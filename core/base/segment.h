/*
 * Shared memory between processes of one host that leaves nothing behind: a memfd, opened by peers through
 * /proc/<pid>/fd/<fd>. The name carries a random cookie that the mapping repeats, so a reused PID or a
 * foreign PID namespace is noticed, not trusted.
 */
#ifndef GPUCOLL_BASE_SEGMENT_H
#define GPUCOLL_BASE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/base/log.h"
#include "core/base/status.h"

/* What identifies a process to its peers; plain data, exchanged as bytes. */
struct gpucoll_process_id {
    uint64_t host;       /* hash of the kernel's boot id */
    uint64_t pid_space;  /* inode of the PID namespace */
    uint64_t start_time; /* of the process, in clock ticks since boot; 0: unknown */
    uint32_t pid;
    uint32_t uid;
};

void gpucoll_process_id_self(struct gpucoll_process_id *id);
bool gpucoll_process_same(const struct gpucoll_process_id *a, const struct gpucoll_process_id *b);
bool gpucoll_process_same_host(const struct gpucoll_process_id *a, const struct gpucoll_process_id *b);
/* True once a process of this PID namespace has ended, though nobody has asked for its status yet or its PID is another one's by now. False
 * as long as nothing shows that. */
bool gpucoll_process_gone(const struct gpucoll_process_id *process);

/* What a peer needs to map a segment; plain data, exchanged as bytes. */
struct gpucoll_segment_name {
    struct gpucoll_process_id owner;
    uint64_t cookie;
    uint64_t address; /* in the owner: used as is by a peer in the same process */
    uint64_t bytes;   /* of the user's part */
    int32_t fd;
    uint32_t reserved;
};

struct gpucoll_segment {
    struct gpucoll_segment_name name;
    struct gpucoll_process_id
        owner;  /* on the peer's side: as name.owner, but for a start time that this process sees otherwise */
    void *user; /* page-aligned, zero-filled at creation */
    void *map;  /* NULL when the segment is of this process but of another owner in it */
    size_t map_bytes;
    int fd; /* -1 on the peer's side */
};

/* Is told of the mapping of a new segment before there are pages, to say where these are to lie. */
typedef void (*gpucoll_segment_placing)(void *arg, void *map, size_t bytes);

/* Creates a segment of at least `bytes`, zero-filled, its memory reserved (out of memory is an error here, not a
 * SIGBUS later). Errors are shown by topic "segment-create". */
gpucoll_status gpucoll_segment_create(struct gpucoll_segment *segment, size_t bytes,
                                      const struct gpucoll_log *log) GPUCOLL_CHECKED;
/* The same with a say in where its memory lies; `place` may be NULL. */
gpucoll_status gpucoll_segment_create_placed(struct gpucoll_segment *segment, size_t bytes,
                                             gpucoll_segment_placing place, void *arg,
                                             const struct gpucoll_log *log) GPUCOLL_CHECKED;
/* Maps a peer's segment; in `owner` the start time is 0 if this process sees another one. Errors are shown by topic "segment-open". */
gpucoll_status gpucoll_segment_open(struct gpucoll_segment *segment, const struct gpucoll_segment_name *name,
                                    const struct gpucoll_log *log) GPUCOLL_CHECKED;
/* Unmaps, and closes what was created here. Harmless on a zeroed struct. */
void gpucoll_segment_close(struct gpucoll_segment *segment);

#endif
