/* Shifts the wall clock of one process. skew.rs compiles it and preloads it into the process. The
 * file named by WORKFLOW_SKEW contains the shift in nanoseconds, as eight bytes in the byte order of
 * the host. The file is mapped, so a write to it moves the clock while the process runs.
 * WORKFLOW_TIME, in nanoseconds since 1970, makes the clock stand still at this time instead:
 * scripts/browser preloads the library into a server whose pages must not change. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;
/* 0: the clock goes on. */
static int64_t still;

__attribute__((constructor)) static void read_environment(void)
{
    const char *time = getenv("WORKFLOW_TIME");
    if (time)
        still = strtoll(time, NULL, 10);
    const char *path = getenv("WORKFLOW_SKEW");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        shift = mapped;
}

static int (*real_clock_gettime)(clockid_t, struct timespec *);

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!real_clock_gettime)
        real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_clock_gettime(clock, now);
    if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return result;
    if (still) {
        now->tv_sec = still / 1000000000;
        now->tv_nsec = still % 1000000000;
    } else if (shift) {
        int64_t nanos = now->tv_nsec + *shift % 1000000000;
        now->tv_sec += *shift / 1000000000 + (nanos >= 1000000000) - (nanos < 0);
        now->tv_nsec = nanos + (nanos < 0 ? 1000000000 : 0) - (nanos >= 1000000000 ? 1000000000 : 0);
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec time;
    int result = clock_gettime(CLOCK_REALTIME, &time);
    if (result == 0 && now) {
        now->tv_sec = time.tv_sec;
        now->tv_usec = time.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *now)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    if (now)
        *now = time.tv_sec;
    return time.tv_sec;
}
