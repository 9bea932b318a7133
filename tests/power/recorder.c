/* Records what a process does to the files below one folder: every write, cut, name and sync, in one order.
 *
 * Preloaded (LD_PRELOAD). COUNTERFOIL_RECORDED names the folder and COUNTERFOIL_RECORD the file that the
 * record is appended to. Each call is carried out and then noted under one lock, so that the record's order
 * is the order in which the calls took effect. What is written to COUNTERFOIL_MARKS is noted as a mark and
 * is no part of the recorded files.
 *
 * One entry: "%c %llu %lld %llu\n", then that many bytes, then "\n". The letter, the inode, a number and a
 * length; what they mean is in recording.py, which reads them. A call that this file does not know
 * would be missed; recording.py therefore holds the replayed files against the true ones.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_FILES 4096
enum { NOT_RECORDED, RECORDED, MARKS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder, *marks;
static size_t folder_length;
static int record = -1;
static struct { int kind; unsigned long long inode; } files[MOST_FILES];

static void write_all(const void *bytes, size_t length)
{
    const char *rest = bytes;
    while (length > 0) {
        long written = syscall(SYS_write, record, rest, length);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            abort(); /* A record with a hole would prove nothing. */
        }
        rest += written;
        length -= (size_t)written;
    }
}

static void note(char letter, unsigned long long inode, long long number, const void *bytes, size_t length)
{
    char head[96];
    int size = snprintf(head, sizeof head, "%c %llu %lld %zu\n", letter, inode, number, length);
    write_all(head, (size_t)size);
    write_all(bytes, length);
    write_all("\n", 1);
}

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("COUNTERFOIL_RECORD");
    folder = getenv("COUNTERFOIL_RECORDED");
    marks = getenv("COUNTERFOIL_MARKS");
    if (name == NULL || folder == NULL)
        return;
    folder_length = strlen(folder);
    record = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_recorded(const char *path)
{
    return record >= 0 && path != NULL && strncmp(path, folder, folder_length) == 0
        && (path[folder_length] == '/' || path[folder_length] == '\0');
}

static int kind_of(int descriptor)
{
    return descriptor >= 0 && descriptor < MOST_FILES ? files[descriptor].kind : NOT_RECORDED;
}

static unsigned long long inode_at(const char *path)
{
    struct stat found;
    return fstatat(AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) == 0 ? (unsigned long long)found.st_ino : 0;
}

#define TRUE_CALL(type, name, ...) \
    static type (*true_call)(__VA_ARGS__); \
    if (true_call == NULL) \
        true_call = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int opened(int at, const char *path, int flags, mode_t mode)
{
    TRUE_CALL(int, "openat", int, const char *, int, ...);
    int is_marks = marks != NULL && path != NULL && strcmp(path, marks) == 0;
    if (!is_recorded(path) && !is_marks)
        return true_call(at, path, flags, mode);
    pthread_mutex_lock(&lock);
    unsigned long long before = inode_at(path);
    int descriptor = true_call(at, path, flags, mode);
    int error = errno;
    if (descriptor >= 0 && descriptor < MOST_FILES) {
        struct stat found;
        fstat(descriptor, &found);
        files[descriptor].kind = is_marks ? MARKS : RECORDED;
        files[descriptor].inode = (unsigned long long)found.st_ino;
        if (!is_marks && before == 0)
            note('C', found.st_ino, 0, path, strlen(path));
        if (!is_marks && before != 0 && (flags & O_TRUNC))
            note('T', found.st_ino, 0, "", 0);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return descriptor;
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = (mode_t)va_arg(rest, int); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE_OF(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int at, const char *path, int flags, ...) { MODE_OF(flags) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return opened(at, path, flags | O_LARGEFILE, mode);
}
int creat(const char *path, mode_t mode)
{
    return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int close(int descriptor)
{
    TRUE_CALL(int, "close", int);
    if (kind_of(descriptor) == NOT_RECORDED)
        return true_call(descriptor);
    pthread_mutex_lock(&lock);
    files[descriptor].kind = NOT_RECORDED;
    int result = true_call(descriptor);
    pthread_mutex_unlock(&lock);
    return result;
}

static ssize_t noted(int descriptor, long long offset, const void *bytes, ssize_t written)
{
    int error = errno;
    if (written > 0)
        note(files[descriptor].kind == MARKS ? 'M' : 'W', files[descriptor].inode, offset, bytes, (size_t)written);
    errno = error;
    return written;
}

ssize_t write(int descriptor, const void *bytes, size_t length)
{
    TRUE_CALL(ssize_t, "write", int, const void *, size_t);
    if (kind_of(descriptor) == NOT_RECORDED)
        return true_call(descriptor, bytes, length);
    pthread_mutex_lock(&lock);
    ssize_t written = true_call(descriptor, bytes, length);
    /* Where it went is told by where the file stands now, also under O_APPEND. */
    long long offset = written > 0 ? (long long)lseek(descriptor, 0, SEEK_CUR) - written : 0;
    noted(descriptor, offset, bytes, written);
    pthread_mutex_unlock(&lock);
    return written;
}

static ssize_t placed(ssize_t (*call)(int, const void *, size_t, off_t), int descriptor, const void *bytes,
    size_t length, off_t offset)
{
    if (kind_of(descriptor) == NOT_RECORDED)
        return call(descriptor, bytes, length, offset);
    pthread_mutex_lock(&lock);
    ssize_t written = noted(descriptor, offset, bytes, call(descriptor, bytes, length, offset));
    pthread_mutex_unlock(&lock);
    return written;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t offset)
{
    TRUE_CALL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    return placed(true_call, descriptor, bytes, length, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off64_t offset)
{
    TRUE_CALL(ssize_t, "pwrite64", int, const void *, size_t, off_t);
    return placed(true_call, descriptor, bytes, length, offset);
}

static int cut(int (*call)(int, off_t), int descriptor, off_t size)
{
    if (kind_of(descriptor) != RECORDED)
        return call(descriptor, size);
    pthread_mutex_lock(&lock);
    int result = call(descriptor, size);
    int error = errno;
    if (result == 0)
        note('T', files[descriptor].inode, size, "", 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int ftruncate(int descriptor, off_t size)
{
    TRUE_CALL(int, "ftruncate", int, off_t);
    return cut(true_call, descriptor, size);
}

int ftruncate64(int descriptor, off64_t size)
{
    TRUE_CALL(int, "ftruncate64", int, off_t);
    return cut(true_call, descriptor, size);
}

static int synced(int (*call)(int), int descriptor)
{
    if (kind_of(descriptor) != RECORDED)
        return call(descriptor);
    pthread_mutex_lock(&lock);
    int result = call(descriptor);
    int error = errno;
    if (result == 0)
        note('S', files[descriptor].inode, 0, "", 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int fsync(int descriptor)
{
    TRUE_CALL(int, "fsync", int);
    return synced(true_call, descriptor);
}

int fdatasync(int descriptor)
{
    TRUE_CALL(int, "fdatasync", int);
    return synced(true_call, descriptor);
}

/* The letter, the inode and one or two names parted by a zero byte. */
static void note_names(char letter, unsigned long long inode, const char *first, const char *second)
{
    char names[2 * PATH_MAX + 2];
    size_t length = strlen(first);
    memcpy(names, first, length);
    if (second != NULL) {
        names[length++] = '\0';
        memcpy(names + length, second, strlen(second));
        length += strlen(second);
    }
    note(letter, inode, 0, names, length);
}

#define NAMED(letter, path, second, call) \
    if (!is_recorded(path)) \
        return call; \
    pthread_mutex_lock(&lock); \
    unsigned long long inode = inode_at(path); \
    int result = call; \
    int error = errno; \
    if (result == 0) \
        note_names(letter, inode ? inode : inode_at(path), path, second); \
    pthread_mutex_unlock(&lock); \
    errno = error; \
    return result

int unlink(const char *path)
{
    TRUE_CALL(int, "unlink", const char *);
    NAMED('U', path, NULL, true_call(path));
}

int unlinkat(int at, const char *path, int flags)
{
    TRUE_CALL(int, "unlinkat", int, const char *, int);
    NAMED('U', path, NULL, true_call(at, path, flags));
}

int rename(const char *from, const char *to)
{
    TRUE_CALL(int, "rename", const char *, const char *);
    NAMED('R', from, to, true_call(from, to));
}

int renameat(int at, const char *from, int to_at, const char *to)
{
    TRUE_CALL(int, "renameat", int, const char *, int, const char *);
    NAMED('R', from, to, true_call(at, from, to_at, to));
}

int link(const char *from, const char *to)
{
    TRUE_CALL(int, "link", const char *, const char *);
    NAMED('L', from, to, true_call(from, to));
}

int linkat(int at, const char *from, int to_at, const char *to, int flags)
{
    TRUE_CALL(int, "linkat", int, const char *, int, const char *, int);
    NAMED('L', from, to, true_call(at, from, to_at, to, flags));
}

int mkdir(const char *path, mode_t mode)
{
    TRUE_CALL(int, "mkdir", const char *, mode_t);
    NAMED('D', path, NULL, true_call(path, mode));
}

int mkdirat(int at, const char *path, mode_t mode)
{
    TRUE_CALL(int, "mkdirat", int, const char *, mode_t);
    NAMED('D', path, NULL, true_call(at, path, mode));
}
