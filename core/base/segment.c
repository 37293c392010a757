/*
 * A segment is a memfd: one page with a header, then the user's part. Linux only, as memfd_create and
 * /proc/<pid>/fd are.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create, fallocate, file seals */
#endif
#include "core/base/segment.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/base/hash.h"

/* The first bytes of a segment. Written before the name is given to anybody, read by peers, never changed. */
struct header {
    uint64_t magic;
    uint64_t cookie;
    uint64_t bytes;
};

static const uint64_t magic = UINT64_C(0x67705365676d7431); /* "gpSegmt1" */

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Reads a small file of /proc as text; the number of bytes, 0 on failure. */
static size_t read_text(const char *path, char *text, size_t text_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, text_bytes - 1);
    if (fd >= 0) {
        close(fd);
    }
    size_t count = got > 0 ? (size_t)got : 0;
    text[count] = '\0';
    return count;
}

/* The boot id tells hosts apart whatever their containers call themselves; where /proc hides it, the name has
 * to. */
static uint64_t host_hash(void)
{
    char text[256];
    size_t count = read_text("/proc/sys/kernel/random/boot_id", text, sizeof(text));
    if (count == 0 && gethostname(text, sizeof(text) - 1) == 0) {
        text[sizeof(text) - 1] = '\0';
        count = strlen(text);
    }
    return gpucoll_hash(gpucoll_hash_seed, text, count);
}

/* What /proc/<pid>/stat says. */
struct process_stat {
    char state;          /* field 3: 'Z' or 'X' when the main thread has ended */
    uint64_t threads;    /* field 20: that have not ended, and the main one */
    uint64_t start_time; /* field 22, never 0 */
};

/* Fields are counted from the last ')', since the program's name (field 2) may hold anything. */
static bool read_stat(const char *path, struct process_stat *stat)
{
    char text[1024];
    read_text(path, text, sizeof(text));
    const char *at = strrchr(text, ')');
    *stat = (struct process_stat){0};
    for (int field = 3; at && field <= 22; field++) {
        at = strchr(at + 1, ' ');
        if (at && field == 3) {
            stat->state = at[1];
        } else if (at && field == 20) {
            stat->threads = strtoull(at + 1, NULL, 10);
        } else if (at && field == 22) {
            stat->start_time = strtoull(at + 1, NULL, 10);
        }
    }
    return stat->start_time != 0;
}

static struct gpucoll_process_id find_self(void)
{
    struct stat space;
    struct process_stat own;
    (void)read_stat("/proc/self/stat", &own);
    return (struct gpucoll_process_id){
        .host = host_hash(),
        .pid_space = stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0,
        .start_time = own.start_time,
        .pid = (uint32_t)getpid(),
    };
}

/* Found once: a process is to be itself also when it has no descriptors left to look in /proc. */
void gpucoll_process_id_self(struct gpucoll_process_id *id)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct gpucoll_process_id self;
    pthread_mutex_lock(&lock);
    if (self.pid != (uint32_t)getpid() ||
        self.start_time == 0) { /* not yet, or not in the parent of this one */
        self = find_self();
    }
    *id = self;
    pthread_mutex_unlock(&lock);
    id->uid = (uint32_t)geteuid();
}

bool gpucoll_process_same_host(const struct gpucoll_process_id *a, const struct gpucoll_process_id *b)
{
    return a->host == b->host;
}

bool gpucoll_process_same(const struct gpucoll_process_id *a, const struct gpucoll_process_id *b)
{
    return gpucoll_process_same_host(a, b) && a->pid_space == b->pid_space && a->pid == b->pid &&
           a->start_time == b->start_time;
}

/* A process that was killed keeps its ID until its parent has asked for its status, and then another may get it. */
bool gpucoll_process_gone(const struct gpucoll_process_id *process)
{
    struct gpucoll_process_id self;
    struct process_stat stat;
    char path[64];
    gpucoll_process_id_self(&self);
    if (!gpucoll_process_same_host(&self, process) || self.pid_space != process->pid_space) {
        return false; /* its ID says nothing here */
    }
    if (kill((pid_t)process->pid, 0) != 0 && errno == ESRCH) {
        return true;
    }
    snprintf(path, sizeof(path), "/proc/%u/stat", (unsigned)process->pid);
    if (!read_stat(path, &stat)) {
        return false; /* there is one of this ID, and /proc does not say which */
    }
    const bool ended = (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
    return ended || (process->start_time != 0 && stat.start_time != process->start_time);
}

static gpucoll_status create_failed(struct gpucoll_segment *segment, size_t bytes, const char *step,
                                    const struct gpucoll_log *log)
{
    int error = errno;
    gpucoll_help(log, "segment-create", bytes, step, strerror(error));
    if (segment->map) {
        munmap(segment->map, segment->map_bytes);
    }
    if (segment->fd >= 0) {
        close(segment->fd);
    }
    *segment = (struct gpucoll_segment){.fd = -1};
    return error == ENOMEM || error == ENOSPC ? GPUCOLL_ERR_NO_MEMORY : GPUCOLL_ERR_SYSTEM;
}

/* A piece at a time: what a signal interrupts has to be done again. */
static bool reserve(int fd, size_t bytes)
{
    static const size_t piece = 4 << 20;
    size_t done = 0;
    while (done < bytes) {
        const size_t next = bytes - done < piece ? bytes - done : piece;
        if (fallocate(fd, 0, (off_t)done, (off_t)next) == 0) {
            done += next;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* The file's memory, mapped: placed by the mapping while it has none yet, then reserved. NULL, or the step that failed. */
static const char *allocate(struct gpucoll_segment *segment, size_t map_bytes, gpucoll_segment_placing place,
                            void *arg)
{
    if (ftruncate(segment->fd, (off_t)map_bytes) != 0) {
        return "ftruncate";
    }
    void *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
    if (map == MAP_FAILED) {
        return "mmap";
    }
    segment->map = map;
    segment->map_bytes = map_bytes;
    if (place) {
        place(arg, map, map_bytes);
    }
    return reserve(segment->fd, map_bytes) ? NULL : "fallocate";
}

gpucoll_status gpucoll_segment_create(struct gpucoll_segment *segment, size_t bytes,
                                      const struct gpucoll_log *log)
{
    return gpucoll_segment_create_placed(segment, bytes, NULL, NULL, log);
}

gpucoll_status gpucoll_segment_create_placed(struct gpucoll_segment *segment, size_t bytes,
                                             gpucoll_segment_placing place, void *arg,
                                             const struct gpucoll_log *log)
{
    size_t page = page_bytes();
    *segment = (struct gpucoll_segment){.fd = -1};
    if (bytes / page >= (size_t)sysconf(_SC_PHYS_PAGES)) {
        errno = ENOMEM; /* asked for so much, the kernel would kill processes before it said no */
        return create_failed(segment, bytes, "size", log);
    }
    bytes = (bytes + page - 1) / page * page;
    size_t map_bytes = page + bytes;
    struct gpucoll_segment_name *name = &segment->name;
    if (getrandom(&name->cookie, sizeof(name->cookie), 0) != (ssize_t)sizeof(name->cookie)) {
        return create_failed(segment, bytes, "getrandom", log);
    }
    segment->fd = memfd_create("gpucoll", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (segment->fd < 0) {
        return create_failed(segment, bytes, "memfd_create", log);
    }
    const char *failed = allocate(segment, map_bytes, place, arg);
    if (failed) {
        return create_failed(segment, bytes, failed, log);
    }
    /* Nobody can take the memory away under a peer's mapping. A kernel without seals works as well. */
    (void)fcntl(segment->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    segment->user = (char *)segment->map + page;
    gpucoll_process_id_self(&name->owner);
    name->address = (uintptr_t)segment->user;
    name->bytes = bytes;
    name->fd = segment->fd;
    *(struct header *)segment->map = (struct header){.magic = magic, .cookie = name->cookie, .bytes = bytes};
    return GPUCOLL_OK;
}

static gpucoll_status open_failed(const struct gpucoll_segment_name *name, int fd, const char *reason,
                                  const struct gpucoll_log *log)
{
    gpucoll_help(log, "segment-open", (unsigned)name->owner.pid, (int)name->fd, reason);
    if (fd >= 0) {
        close(fd);
    }
    return GPUCOLL_ERR_SYSTEM;
}

/* NULL if the open file may be mapped as what `name` says, else the reason why not. */
static const char *refuse(int fd, const struct gpucoll_segment_name *name, size_t map_bytes)
{
    struct stat file;
    if (fstat(fd, &file) != 0) {
        return strerror(errno);
    }
    if (file.st_uid != (uid_t)name->owner.uid || file.st_uid != geteuid()) {
        return "it belongs to another user";
    }
    if (!S_ISREG(file.st_mode) || file.st_size < 0 || (size_t)file.st_size < map_bytes) {
        return "it is smaller than announced: the process ID was reused or belongs to another container";
    }
    return NULL;
}

static gpucoll_status map_peer(struct gpucoll_segment *segment, int fd, const struct gpucoll_log *log)
{
    const struct gpucoll_segment_name *name = &segment->name;
    size_t page = page_bytes();
    size_t map_bytes = page + name->bytes;
    const char *reason = refuse(fd, name, map_bytes);
    if (reason) {
        return open_failed(name, fd, reason, log);
    }
    void *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        return open_failed(name, fd, strerror(errno), log);
    }
    const struct header *header = map;
    if (header->magic != magic || header->cookie != name->cookie || header->bytes != name->bytes) {
        munmap(map, map_bytes);
        return open_failed(
            name, fd,
            "it is not the announced segment: the process ID was reused or belongs to another container",
            log);
    }
    close(fd); /* the mapping keeps the memory */
    /* It lives: with another start time its clock counts from another moment (time namespaces). */
    if (gpucoll_process_gone(&segment->owner)) {
        segment->owner.start_time = 0;
    }
    segment->map = map;
    segment->map_bytes = map_bytes;
    segment->user = (char *)map + page;
    return GPUCOLL_OK;
}

gpucoll_status gpucoll_segment_open(struct gpucoll_segment *segment, const struct gpucoll_segment_name *name,
                                    const struct gpucoll_log *log)
{
    struct gpucoll_process_id self;
    gpucoll_process_id_self(&self);
    *segment = (struct gpucoll_segment){.name = *name, .owner = name->owner, .fd = -1};
    if (gpucoll_process_same(&self, &name->owner)) {
        segment->user = (void *)(uintptr_t)name->address;
        return GPUCOLL_OK;
    }
    if (!gpucoll_process_same_host(&self, &name->owner)) {
        return open_failed(name, -1, "it is on another host", log);
    }
    if (self.pid_space != name->owner.pid_space) {
        return open_failed(name, -1, "it is in another PID namespace (container)", log);
    }
    if (name->bytes > SIZE_MAX / 2) {
        return open_failed(name, -1, "its size is out of range", log);
    }
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/fd/%d", (unsigned)name->owner.pid, (int)name->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return open_failed(name, -1, strerror(errno), log);
    }
    return map_peer(segment, fd, log);
}

void gpucoll_segment_close(struct gpucoll_segment *segment)
{
    /* The map tells an owner's or a peer's segment from a zeroed struct, whose fd is 0 and not ours. */
    if (segment->map) {
        munmap(segment->map, segment->map_bytes);
        if (segment->fd >= 0) {
            close(segment->fd);
        }
    }
    *segment = (struct gpucoll_segment){.fd = -1};
}
