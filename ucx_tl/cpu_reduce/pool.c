#include "ucx_tl/cpu_reduce/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include "core/base/thread.h"
#include "ucx_tl/cpu_reduce/cores.h"

/* Sums at once: more than a process has lanes in use are rare, and are summed by their callers alone. */
enum { POSTS = 16, MOST_CHOSEN = 4 };

/* Looks without a share: so many with nothing between them (some tens of microseconds), then so many that let other threads run. */
static const unsigned eager_looks = 1000;
static const unsigned polite_looks = 200;
static const long nap_ns = 50000;

/* `users` threads may look at `sum`, which a thread reads only after it has counted itself. */
struct post {
    _Alignas(64) _Atomic(const struct gpucoll_sum *) sum;
    _Atomic uint32_t users;
};

struct worker {
    struct gpucoll_pool *pool;
    pthread_t thread;
    int core; /* -1: not bound */
};

struct gpucoll_pool {
    struct post posts[POSTS];
    pthread_mutex_t lock; /* guards what stands below */
    pthread_cond_t posted;
    uint32_t sums; /* posted and not withdrawn */
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

/* Sleeps as long as no sum is posted, after which looks are counted anew. False when the pool closes. */
static bool wait_for_sums(struct gpucoll_pool *pool, unsigned *looks)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->sums == 0 && !pool->closing) {
        pthread_cond_wait(&pool->posted, &pool->lock);
        *looks = 0;
    }
    const bool closing = pool->closing;
    pthread_mutex_unlock(&pool->lock);
    return !closing;
}

static void pause_after(unsigned looks)
{
    if (looks < eager_looks) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (looks < eager_looks + polite_looks) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){.tv_nsec = nap_ns}, NULL);
    }
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct gpucoll_pool *pool = worker->pool;
    if (worker->core >= 0) {
        (void)gpucoll_cores_bind(pool->cores, (uint32_t)worker->core);
    }
    unsigned looks = 0;
    for (;;) {
        bool helped = false;
        for (int i = 0; i < POSTS; i++) {
            if (atomic_load_explicit(&pool->posts[i].sum, memory_order_relaxed) != NULL) {
                helped |= help(&pool->posts[i]);
            }
        }
        looks = helped ? 0 : looks + 1;
        /* The mutex is looked at now and then only, and whenever there has been nothing to do for long. */
        if (!helped && looks >= eager_looks && !wait_for_sums(pool, &looks)) {
            return NULL;
        }
        pause_after(looks);
    }
}

struct gpucoll_pool *gpucoll_pool_open(int wanted, uint32_t sharers, uint32_t index,
                                       const struct gpucoll_log *log)
{
    struct gpucoll_cores *cores = wanted == 0 ? NULL : gpucoll_cores_open();
    const uint32_t share = gpucoll_cores_count(cores) / (sharers > 0 ? sharers : 1);
    uint32_t threads = (uint32_t)wanted;
    if (wanted < 0) { /* one core is the caller's own */
        threads = share < 1 ? 0 : share - 1 < MOST_CHOSEN ? share - 1 : MOST_CHOSEN;
    }
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
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->posted, NULL);
    pool->sums = 0;
    pool->closing = false;
    pool->cores = cores;
    pool->threads = 0;
    for (uint32_t i = 0; i < threads; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        /* From the end of this process's share: the caller is more likely to run at its beginning. */
        worker->core = threads < share ? (int)((index + 1) * share - 1 - i) : -1;
        if (gpucoll_thread_start(&worker->thread, work, worker) != 0) {
            break;
        }
        pool->threads++;
    }
    gpucoll_log(log, GPUCOLL_LOG_SETUP, "%u threads sum in host memory%s", pool->threads,
                threads < share ? ", each on a core of its own" : "");
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
        const struct gpucoll_sum *none = NULL;
        if (atomic_compare_exchange_strong(&pool->posts[i].sum, &none, sum)) {
            pthread_mutex_lock(&pool->lock);
            pool->sums++;
            pthread_cond_broadcast(&pool->posted);
            pthread_mutex_unlock(&pool->lock);
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
    pthread_mutex_lock(&pool->lock);
    pool->sums--;
    pthread_mutex_unlock(&pool->lock);
}
