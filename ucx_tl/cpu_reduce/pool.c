#include "ucx_tl/cpu_reduce/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include "core/base/clock.h"
#include "core/base/thread.h"

/* Sums at once: more than a process has lanes in use are rare, and are summed by their callers alone. */
enum { POSTS = 16, MOST_CHOSEN = 4 };

/* Without a share a thread looks as long as this with nothing between two looks, since to wake one takes as long as a message of a MiB, and
 * calls often follow each other; then it lets other threads run between looks. */
static const uint64_t eager_ns = 200000;
static const uint64_t polite_ns = 400000;
static const long nap_ns = 50000;

/* `users` threads may look at `sum`, which a thread reads only after it has counted itself. `taken` from the post until none looks at that sum any
 * more: another one's users would be waited for, too. */
struct post {
    _Alignas(64) _Atomic(const struct gpucoll_sum *) sum;
    _Atomic uint32_t users;
    _Atomic bool taken;
};

struct worker {
    struct gpucoll_pool *pool;
    pthread_t thread;
    int core; /* -1: not bound */
};

struct gpucoll_pool {
    struct post posts[POSTS];
    _Atomic uint32_t sums;     /* posted and not withdrawn */
    _Atomic uint32_t sleepers; /* threads that wait for `posted` */
    pthread_mutex_t lock;      /* guards `closing`, and the wait */
    pthread_cond_t posted;
    bool closing;
    struct gpucoll_cores *cores;
    uint32_t threads;
    struct worker workers[];
};

static bool help(struct post *post)
{
    bool helped = false;
    atomic_fetch_add(&post->users, 1); /* before the load: see gpucoll_pool_withdraw */
    const struct gpucoll_sum *sum = atomic_load(&post->sum);
    while (sum != NULL && gpucoll_sum_share(sum)) {
        helped = true;
    }
    atomic_fetch_sub(&post->users, 1);
    return helped;
}

/* Sleeps as long as no sum is posted. False when the pool closes. A thread counts itself among the sleepers and then looks for sums; who posts
 * counts the sum and then looks for sleepers, both sequentially consistent: so either the thread sees the sum, or it is woken. */
static bool sleep_without_sums(struct gpucoll_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->sums) == 0 && !pool->closing) {
        pthread_cond_wait(&pool->posted, &pool->lock);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    const bool closing = pool->closing;
    pthread_mutex_unlock(&pool->lock);
    return !closing;
}

/* Between two looks at flags that others are to raise: not too often, since each look of each thread takes the flag's line from its owner. */
static void relax(void)
{
#if defined(__x86_64__)
    for (int i = 0; i < 8; i++) {
        __builtin_ia32_pause();
    }
#endif
}

/* Between two looks that found no share, the last share having been at `*since`, or the last time the thread was woken. False when
 * the pool closes. */
static bool pause_between(struct gpucoll_pool *pool, uint64_t *since)
{
    const uint64_t idle = gpucoll_now_ns() - *since;
    if (idle < eager_ns) {
        relax();
    } else if (atomic_load(&pool->sums) == 0) {
        const bool open = sleep_without_sums(pool);
        *since = gpucoll_now_ns();
        return open;
    } else if (idle < polite_ns) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){.tv_nsec = nap_ns}, NULL);
    }
    return true;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct gpucoll_pool *pool = worker->pool;
    if (worker->core >= 0) {
        (void)gpucoll_cores_bind(pool->cores, (uint32_t)worker->core);
    }
    uint64_t since = gpucoll_now_ns();
    do {
        for (int i = 0; i < POSTS && atomic_load_explicit(&pool->sums, memory_order_relaxed) > 0; i++) {
            if (atomic_load_explicit(&pool->posts[i].sum, memory_order_relaxed) != NULL &&
                help(&pool->posts[i])) {
                since = gpucoll_now_ns();
            }
        }
    } while (pause_between(pool, &since));
    return NULL;
}

struct gpucoll_pool *gpucoll_pool_open(int wanted, const struct gpucoll_cores_sharers *sharers,
                                       const struct gpucoll_log *log)
{
    struct gpucoll_cores *cores = wanted == 0 ? NULL : gpucoll_cores_open();
    const struct gpucoll_cores_count count = gpucoll_cores_count(cores);
    const struct gpucoll_cores_part part = gpucoll_cores_part(&count, sharers);
    uint32_t threads = (uint32_t)wanted;
    if (wanted < 0) { /* one core is the caller's own */
        threads = part.threads < 1 ? 0 : part.threads - 1 < MOST_CHOSEN ? part.threads - 1 : MOST_CHOSEN;
    }
    const bool bound = threads < part.cores && part.first >= 0;
    struct gpucoll_pool *pool =
        threads > 0 ? aligned_alloc(64, (sizeof *pool + threads * sizeof pool->workers[0] + 63) / 64 * 64)
                    : NULL;
    if (pool == NULL) {
        gpucoll_cores_close(cores);
        return NULL;
    }
    for (int i = 0; i < POSTS; i++) {
        atomic_init(&pool->posts[i].sum, NULL);
        atomic_init(&pool->posts[i].users, 0);
        atomic_init(&pool->posts[i].taken, false);
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->posted, NULL);
    atomic_init(&pool->sums, 0);
    atomic_init(&pool->sleepers, 0);
    pool->closing = false;
    pool->cores = cores;
    pool->threads = 0;
    for (uint32_t i = 0; i < threads; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        /* From the end of this process's share: the caller is more likely to run at its beginning. */
        worker->core = bound ? part.first + (int)(part.cores - 1 - i) : -1;
        if (gpucoll_thread_start(&worker->thread, work, worker) != 0) {
            break;
        }
        pool->threads++;
    }
    gpucoll_log(log, GPUCOLL_LOG_SETUP, "%u threads sum in host memory; this process's part is %u of %u cores%s",
                pool->threads, part.cores, count.own, bound ? ", each on a core of its own" : "");
    return pool;
}

void gpucoll_pool_close(struct gpucoll_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->posted);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->threads; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->posted);
    pthread_mutex_destroy(&pool->lock);
    gpucoll_cores_close(pool->cores);
    free(pool);
}

int gpucoll_pool_post(struct gpucoll_pool *pool, const struct gpucoll_sum *sum)
{
    for (int i = 0; pool != NULL && i < POSTS; i++) {
        bool taken = false;
        if (atomic_compare_exchange_strong(&pool->posts[i].taken, &taken, true)) {
            atomic_store(&pool->posts[i].sum, sum);
            atomic_fetch_add(&pool->sums, 1);
            if (atomic_load(&pool->sleepers) > 0) {
                pthread_mutex_lock(&pool->lock);
                pthread_cond_broadcast(&pool->posted);
                pthread_mutex_unlock(&pool->lock);
            }
            return i;
        }
    }
    return GPUCOLL_POOL_NONE;
}

/* A thread counts itself among the users and then reads `sum`; this clears `sum` and then reads the users. Both are sequentially
 * consistent, so either the thread sees that the sum is gone, or it is seen here and waited for. */
void gpucoll_pool_withdraw(struct gpucoll_pool *pool, int posted)
{
    if (posted == GPUCOLL_POOL_NONE) {
        return;
    }
    struct post *post = &pool->posts[posted];
    atomic_store(&post->sum, NULL);
    while (atomic_load(&post->users) > 0) {
        sched_yield();
    }
    atomic_store(&post->taken, false);
    atomic_fetch_sub(&pool->sums, 1);
}
