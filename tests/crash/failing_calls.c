/* A library to preload that counts the calls by which a process changes or opens files below one folder, and
 * makes one of them fail, or kills the process just before or after it.
 *
 * Nothing happens until `arm` is called, which a forked child does through ctypes. Calls below the standard
 * library are what is counted, so whoever makes them (Python, torch, the Rust of safetensors) is tried alike.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FAIL, KILL_BEFORE, KILL_AFTER };

static char root[PATH_MAX];
static size_t root_length; /* 0 while nothing is counted */
static atomic_long calls;
static long wanted;
static int mode, failure, journal = -1;

/* Count calls below `folder`; at the n-th, fail with `error` or kill. Each is written to the descriptor `log`. */
void arm(const char *folder, long n, int how, int error, int log) {
    strncpy(root, folder, sizeof root - 1);
    wanted = n, mode = how, failure = error, journal = log;
    root_length = strlen(root);
}

static void die(void) { syscall(SYS_kill, syscall(SYS_getpid), SIGKILL); }

/* Path of a descriptor, or of a name beside one; 0 if it is not below the root. */
static int below(int at, const char *name, char *path) {
    char link[32];
    ssize_t length = 0;
    if (!root_length) return 0;
    if (name && name[0] == '/') {
        strncpy(path, name, PATH_MAX - 1);
        path[PATH_MAX - 1] = 0;
    } else {
        if (at == AT_FDCWD) {
            if (!getcwd(path, PATH_MAX)) return 0;
            length = strlen(path);
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            if ((length = readlink(link, path, PATH_MAX - 1)) < 0) return 0;
        }
        snprintf(path + length, PATH_MAX - length, name ? "/%s" : "%s", name ? name : "");
    }
    return !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

/* Whether this call is the one that fails; the error is set. */
static int strikes(const char *what, const char *path) {
    char line[PATH_MAX + 64];
    long n = atomic_fetch_add(&calls, 1) + 1;
    int length = snprintf(line, sizeof line, "%ld %s %s\n", n, what, path + root_length);
    syscall(SYS_write, journal, line, length);
    if (n != wanted) return 0;
    if (mode == KILL_BEFORE) die();
    errno = failure;
    return mode == FAIL;
}

static void after(void) {
    if (mode == KILL_AFTER && wanted && atomic_load(&calls) == wanted) die();
}

#define ORIGINAL(name) \
    static __typeof__(&name) original; \
    if (!original) original = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* One call: `AT` and `NAME` say which file it touches. */
#define CALL(type, name, parameters, arguments, at, file, what, failed) \
    type name parameters { \
        ORIGINAL(name); \
        char path[PATH_MAX]; \
        int ours = below(at, file, path); \
        if (ours && strikes(what, path)) return failed; \
        type outcome = original arguments; \
        if (ours) { int kept = errno; after(); errno = kept; } \
        return outcome; \
    }

/* Calls by which files are opened take their mode only if they may create one. */
#define OPEN(name, parameters, at, ...) \
    int name parameters { \
        ORIGINAL(name); \
        char path[PATH_MAX]; \
        va_list rest; \
        va_start(rest, flags); \
        mode_t bits = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        int ours = below(at, file, path); \
        if (ours && strikes(flags & (O_WRONLY | O_RDWR) ? "open-to-write" : "open-to-read", path)) return -1; \
        int outcome = original(__VA_ARGS__, flags, bits); \
        if (ours) { int kept = errno; after(); errno = kept; } \
        return outcome; \
    }

OPEN(open, (const char *file, int flags, ...), AT_FDCWD, file)
OPEN(open64, (const char *file, int flags, ...), AT_FDCWD, file)
OPEN(openat, (int at, const char *file, int flags, ...), at, at, file)
OPEN(openat64, (int at, const char *file, int flags, ...), at, at, file)

CALL(FILE *, fopen, (const char *file, const char *how), (file, how), AT_FDCWD, file, "open", NULL)
CALL(FILE *, fopen64, (const char *file, const char *how), (file, how), AT_FDCWD, file, "open", NULL)
CALL(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), fd, NULL, "write", -1)
CALL(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o), fd, NULL, "write", -1)
CALL(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o), fd, NULL, "write", -1)
CALL(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), fd, NULL, "write", -1)
CALL(ssize_t, sendfile, (int fd, int from, off_t *o, size_t n), (fd, from, o, n), fd, NULL, "write", -1)
CALL(ssize_t, sendfile64, (int fd, int from, off64_t *o, size_t n), (fd, from, o, n), fd, NULL, "write", -1)
CALL(ssize_t, copy_file_range, (int from, off64_t *i, int fd, off64_t *o, size_t n, unsigned f),
     (from, i, fd, o, n, f), fd, NULL, "write", -1)
CALL(int, ftruncate, (int fd, off_t n), (fd, n), fd, NULL, "truncate", -1)
CALL(int, ftruncate64, (int fd, off64_t n), (fd, n), fd, NULL, "truncate", -1)
CALL(int, fsync, (int fd), (fd), fd, NULL, "fsync", -1)
CALL(int, fdatasync, (int fd), (fd), fd, NULL, "fsync", -1)
CALL(int, rename, (const char *file, const char *to), (file, to), AT_FDCWD, file, "rename", -1)
CALL(int, renameat, (int at, const char *file, int beside, const char *to), (at, file, beside, to), at, file,
     "rename", -1)
CALL(int, unlink, (const char *file), (file), AT_FDCWD, file, "unlink", -1)
CALL(int, unlinkat, (int at, const char *file, int flags), (at, file, flags), at, file, "unlink", -1)
CALL(int, rmdir, (const char *file), (file), AT_FDCWD, file, "unlink", -1)
CALL(int, mkdir, (const char *file, mode_t bits), (file, bits), AT_FDCWD, file, "mkdir", -1)
CALL(int, mkdirat, (int at, const char *file, mode_t bits), (at, file, bits), at, file, "mkdir", -1)
CALL(int, chmod, (const char *file, mode_t bits), (file, bits), AT_FDCWD, file, "chmod", -1)
CALL(int, fchmod, (int fd, mode_t bits), (fd, bits), fd, NULL, "chmod", -1)
CALL(int, fchmodat, (int at, const char *file, mode_t bits, int flags), (at, file, bits, flags), at, file,
     "chmod", -1)
CALL(int, flock, (int fd, int how), (fd, how), fd, NULL, "lock", -1)
CALL(void *, mmap, (void *place, size_t n, int may, int how, int fd, off_t o), (place, n, may, how, fd, o),
     how & MAP_ANONYMOUS ? -1 : fd, NULL, "mmap", MAP_FAILED)
CALL(void *, mmap64, (void *place, size_t n, int may, int how, int fd, off64_t o), (place, n, may, how, fd, o),
     how & MAP_ANONYMOUS ? -1 : fd, NULL, "mmap", MAP_FAILED)
