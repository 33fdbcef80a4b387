/* Stands before the C library of daemons and agents: files below the directory in PCM_SICK_DIR suffer what the file in
 * PCM_SICK_HOW says, `FAULT PART`: calls on a path that contains PART fail with the error of this number, or, where
 * FAULT is `stall`, wait until the file says something else. An empty file is health. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STALL = -1, HEALTH = 0, PATH_BYTES = 4096 };

/* No test stalls a disk for longer. */
static const int stall_max_ms = 60000;

static int look(const char *path)
{
    const char *below = getenv("PCM_SICK_DIR"), *how = getenv("PCM_SICK_HOW");
    char text[256], part[200] = "", fault[32] = "";
    if (below == NULL || how == NULL || path == NULL || strncmp(path, below, strlen(below)) != 0)
        return HEALTH;
    long file = syscall(SYS_openat, AT_FDCWD, how, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return HEALTH;
    long length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    text[length > 0 ? length : 0] = '\0';
    if (sscanf(text, "%31s %199s", fault, part) < 1 || strstr(path, part) == NULL)
        return HEALTH;
    return strcmp(fault, "stall") == 0 ? STALL : atoi(fault);
}

/* The error that a call on a path fails with, 0 for none. */
static int sickness(const char *path)
{
    const struct timespec moment = {0, 20 * 1000 * 1000};
    for (int waited = 0;; waited += 20) {
        int found = look(path);
        if (found != STALL || waited >= stall_max_ms)
            return found == STALL ? EIO : found;
        nanosleep(&moment, NULL);
    }
}

static int sickness_of(int file)
{
    char name[64], path[PATH_BYTES];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t length = readlink(name, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return sickness(path);
}

/* Fails with an error, or calls what comes next of this name. */
#define PASS(error, result, name, arguments, ...)                    \
    do {                                                             \
        int ill = (error);                                           \
        if (ill != 0) {                                              \
            errno = ill;                                             \
            return -1;                                               \
        }                                                            \
        result(*next) arguments = (result(*) arguments)0;            \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                   \
        return next(__VA_ARGS__);                                    \
    } while (0)

#define OPEN(name)                                                                  \
    int name(const char *path, int flags, ...)                                      \
    {                                                                               \
        va_list list;                                                               \
        va_start(list, flags);                                                      \
        mode_t mode = va_arg(list, mode_t);                                         \
        va_end(list);                                                               \
        PASS(sickness(path), int, name, (const char *, int, ...), path, flags, mode); \
    }

OPEN(open)
OPEN(open64)

ssize_t write(int file, const void *bytes, size_t count)
{
    PASS(sickness_of(file), ssize_t, write, (int, const void *, size_t), file, bytes, count);
}

ssize_t read(int file, void *bytes, size_t count)
{
    PASS(sickness_of(file), ssize_t, read, (int, void *, size_t), file, bytes, count);
}

int rename(const char *from, const char *to)
{
    PASS(sickness(to), int, rename, (const char *, const char *), from, to);
}

int mkdir(const char *path, mode_t mode)
{
    PASS(sickness(path), int, mkdir, (const char *, mode_t), path, mode);
}

int ftruncate64(int file, off64_t length)
{
    PASS(sickness_of(file), int, ftruncate64, (int, off64_t), file, length);
}

int statx(int folder, const char *restrict path, int flags, unsigned int mask,
          struct statx *restrict found)
{
    PASS(sickness(path), int, statx, (int, const char *, int, unsigned int, struct statx *),
         folder, path, flags, mask, found);
}
