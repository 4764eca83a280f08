/* A disk that is full from the nth write on, for one process tree: LD_PRELOAD, Linux only.
 *
 * Counts the calls that ask the disk below $FAULT_ROOT for room (write, pwrite, writev, fsync, ftruncate, fallocate,
 * rename, open with O_CREAT, mkdir, link) and notes each in $FAULT_LOG, one line: its number, "ok" or "fault", the call,
 * the path. From call $FAULT_AT on they fail with ENOSPC ($FAULT_MODE "all"), or that one alone ("once"), or that one
 * takes half of what it is to write and all others fail ("torn"). Without $FAULT_AT it only counts.
 *
 * Not seen: writes to mapped memory (SQLite's wal-index, for which it asks room by pwrite first), and unlink, which
 * needs no room on most file systems.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum verdict { OK, FAIL, HALF };

static atomic_long calls;

static void note(long number, const char *word, const char *call, const char *path) {
    const char *log = getenv("FAULT_LOG");
    char line[PATH_MAX + 64];
    if (log == NULL) return;
    int length = snprintf(line, sizeof line, "%ld %s %s %s\n", number, word, call, path);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) abort();
    if (syscall(SYS_write, fd, line, (size_t)length) != length) abort();
    syscall(SYS_close, fd);
}

/* The verdict on one call; errno is set where it is to fail. */
static enum verdict judge(const char *call, const char *path, int divisible) {
    const char *root = getenv("FAULT_ROOT"), *at = getenv("FAULT_AT"), *mode = getenv("FAULT_MODE");
    size_t length = root == NULL ? 0 : strlen(root);
    if (length == 0 || strncmp(path, root, length) != 0 || (path[length] != '/' && path[length] != '\0')) return OK;
    long number = atomic_fetch_add(&calls, 1) + 1, first = at == NULL ? 0 : atol(at);
    int once = mode != NULL && strcmp(mode, "once") == 0, torn = mode != NULL && strcmp(mode, "torn") == 0;
    int fault = first > 0 && (once ? number == first : number >= first);
    note(number, fault ? "fault" : "ok", call, path);
    if (!fault) return OK;
    if (torn && number == first && divisible) return HALF;
    errno = ENOSPC;
    return FAIL;
}

static enum verdict judge_fd(const char *call, int fd, int divisible) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return OK;
    path[length] = '\0';
    return judge(call, path, divisible);
}

static enum verdict judge_at(const char *call, int folder, const char *name) {
    char link[64], path[2 * PATH_MAX];
    if (name[0] == '/') return judge(call, name, 0);
    snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return OK;
    snprintf(path + length, sizeof path - (size_t)length, "/%s", name);
    return judge(call, path, 0);
}

/* What is there already needs no room. */
static int exists(int folder, const char *name) { return syscall(SYS_faccessat, folder, name, F_OK) == 0; }

ssize_t write(int fd, const void *bytes, size_t count) {
    enum verdict verdict = judge_fd("write", fd, count > 1);
    return verdict == FAIL ? -1 : syscall(SYS_write, fd, bytes, verdict == HALF ? count / 2 : count);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    enum verdict verdict = judge_fd("pwrite", fd, count > 1);
    return verdict == FAIL ? -1 : syscall(SYS_pwrite64, fd, bytes, verdict == HALF ? count / 2 : count, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) { return pwrite64(fd, bytes, count, offset); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    return judge_fd("writev", fd, 0) == FAIL ? -1 : syscall(SYS_writev, fd, parts, count);
}

int fsync(int fd) { return judge_fd("fsync", fd, 0) == FAIL ? -1 : (int)syscall(SYS_fsync, fd); }

int fdatasync(int fd) { return judge_fd("fdatasync", fd, 0) == FAIL ? -1 : (int)syscall(SYS_fdatasync, fd); }

int ftruncate64(int fd, off64_t size) {
    return judge_fd("ftruncate", fd, 0) == FAIL ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
    return judge_fd("fallocate", fd, 0) == FAIL ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size) { return fallocate64(fd, mode, offset, size); }

int posix_fallocate64(int fd, off64_t offset, off64_t size) { return fallocate64(fd, 0, offset, size) ? errno : 0; }

int posix_fallocate(int fd, off_t offset, off_t size) { return posix_fallocate64(fd, offset, size); }

#define CREATES(flags) (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE)

static int open_at(int folder, const char *name, int flags, unsigned mode) {
    int anonymous = (flags & O_TMPFILE) == O_TMPFILE;
    if (CREATES(flags) && (anonymous || !exists(folder, name)) && judge_at("open", folder, name) == FAIL) return -1;
    return (int)syscall(SYS_openat, folder, name, flags, mode);
}

#define MODE(flags, mode)                                  \
    va_list rest;                                          \
    va_start(rest, flags);                                 \
    unsigned mode = CREATES(flags) ? va_arg(rest, unsigned) : 0; \
    va_end(rest)

int openat64(int folder, const char *name, int flags, ...) {
    MODE(flags, mode);
    return open_at(folder, name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...) {
    MODE(flags, mode);
    return open_at(folder, name, flags, mode);
}

int open64(const char *name, int flags, ...) {
    MODE(flags, mode);
    return open_at(AT_FDCWD, name, flags, mode);
}

int open(const char *name, int flags, ...) {
    MODE(flags, mode);
    return open_at(AT_FDCWD, name, flags, mode);
}

int mkdirat(int folder, const char *name, mode_t mode) {
    int needed = !exists(folder, name);
    return needed && judge_at("mkdir", folder, name) == FAIL ? -1 : (int)syscall(SYS_mkdirat, folder, name, mode);
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int renameat2(int from, const char *old, int to, const char *name, unsigned flags) {
    return judge_at("rename", to, name) == FAIL ? -1 : (int)syscall(SYS_renameat2, from, old, to, name, flags);
}

int renameat(int from, const char *old, int to, const char *name) { return renameat2(from, old, to, name, 0); }

int rename(const char *old, const char *name) { return renameat2(AT_FDCWD, old, AT_FDCWD, name, 0); }

int linkat(int from, const char *old, int to, const char *name, int flags) {
    return judge_at("link", to, name) == FAIL ? -1 : (int)syscall(SYS_linkat, from, old, to, name, flags);
}

int link(const char *old, const char *name) { return linkat(AT_FDCWD, old, AT_FDCWD, name, 0); }
