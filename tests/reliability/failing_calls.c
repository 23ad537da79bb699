// SPDX-License-Identifier: Apache-2.0
// Calls to the system that fail when they are told to, for tools/reliability: a library that
// LD_PRELOAD puts before libc.
//
//   STEPCAST_FAIL    CALL HOW N ERROR: of the calls of a kind (allocate, open, read, write, sync,
//                    rename, thread) the Nth alone (once), that and all after it (on), or every Nth
//                    (each) fails with this errno; ERROR 0 makes a read or a write a short one, and
//                    -N has signal N arrive before the call.
//   STEPCAST_CALLS   a file of kKinds + 1 numbers of eight bytes, which says afterwards how many
//                    calls of each kind there were, and how many of them failed.
//   STEPCAST_TRIES   a file of struct Try, in which Nth calls ascend: one process makes all these
//                    tries, since starting takes longer than most commands.  Each try is a child of
//                    it in the folder STEPCAST_PLACE/I, with its output in STEPCAST_PLACE/I.out and
//                    I.err, for the Ith try.  N of STEPCAST_FAIL is then 0, and HOW says where it
//                    is forked: `start`, where counting begins, or `there`, at the call that fails,
//                    for commands that are one thread and write no files.
//
// Counting begins where the program's own code begins, after its libraries have been set up; what
// is written to standard error is left alone, because it says what failed.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kAllocate, kOpen, kRead, kWrite, kSync, kRename, kThread, kKinds };
static const char* const kNames[kKinds] = {"allocate", "open",   "read",  "write",
                                           "sync",     "rename", "thread"};
enum { kOnce, kOn, kEach };

struct Calls {
  atomic_ullong made[kKinds];
  atomic_ullong failed;
};
static struct Calls* calls = NULL;  // null before counting begins
static int kind = -1, how = kOnce, error = 0;
static unsigned long long which = 0;

struct Try {
  unsigned long long which;  // call fails, ...
  unsigned long long told;   // bytes that standard output had got before the fork
  int how;                   // ... kOnce or kOn
  int status;                // as waitpid() gives it; -1: not made
};
static struct Try* tries = NULL;  // null in a child
static size_t try_count = 0, next_try = 0;
static int forks_there = 0;
static unsigned long long told = 0;
enum { kLongest = 120 };  // seconds: what takes longer hangs

// In a child, which makes the try.
static void set_out(const char* place, const struct Try* try) {
  static struct Calls own;
  for (int k = 0; k < kKinds; ++k) own.made[k] = atomic_load(&calls->made[k]);
  calls = &own;
  which = try->which;
  how = try->how;
  tries = NULL;
  char path[4096];
  for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; ++fd) {
    snprintf(path, sizeof path, "%s/%zu.%s", place, next_try, fd == STDOUT_FILENO ? "out" : "err");
    // Not open(), which is counted.
    const int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (file < 0 || dup2(file, fd) < 0) _exit(99);
    syscall(SYS_close, file);
  }
  snprintf(path, sizeof path, "%s/%zu", place, next_try);
  if (chdir(path) != 0) _exit(99);
  alarm(kLongest);
}

// Makes the next try.  1 in the child, 0 in its parent, once that has ended.
static int fork_try(void) {
  struct Try* try = &tries[next_try];
  const pid_t child = fork();
  if (child < 0) _exit(98);
  if (child == 0) {
    set_out(getenv("STEPCAST_PLACE"), try);
    return 1;
  }
  while (waitpid(child, &try->status, 0) < 0 && errno == EINTR) {
  }
  try->told = told;
  if (++next_try == try_count) _exit(0);  // what would follow is undisturbed
  return 0;
}

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

static void* shared_file(const char* name, size_t* size) {
  const int fd = name != NULL ? open(name, O_RDWR) : -1;
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) return NULL;
  *size = (size_t)status.st_size;
  void* shared = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return shared != MAP_FAILED ? shared : NULL;
}

__attribute__((constructor)) static void begin(void) {
  size_t size = 0;
  struct Calls* shared = shared_file(getenv("STEPCAST_CALLS"), &size);
  if (shared == NULL) return;
  char call[16] = "", when[16] = "";
  const char* wanted = getenv("STEPCAST_FAIL");
  if (wanted != NULL && sscanf(wanted, "%15s %15s %llu %d", call, when, &which, &error) == 4) {
    for (int k = 0; k < kKinds; ++k)
      if (strcmp(call, kNames[k]) == 0) kind = k;
    how = strcmp(when, "on") == 0 ? kOn : strcmp(when, "each") == 0 ? kEach : kOnce;
    forks_there = strcmp(when, "there") == 0;
  }
  tries = shared_file(getenv("STEPCAST_TRIES"), &size);
  try_count = size / sizeof(struct Try);
  calls = shared;
  if (tries == NULL || forks_there) return;
  while (next_try < try_count)
    if (fork_try()) return;
}

static int fails(int k) {
  if (calls == NULL) return 0;
  const unsigned long long n = atomic_fetch_add(&calls->made[k], 1) + 1;
  if (k != kind) return 0;
  while (tries != NULL && next_try < try_count && tries[next_try].which == n)
    if (fork_try()) break;
  if (which == 0) return 0;
  const int now = how == kOnce ? n == which : how == kOn ? n >= which : n % which == 0;
  if (!now) return 0;
  atomic_fetch_add(&calls->failed, 1);
  if (error >= 0) return 1;
  raise(-error);
  return 0;
}

// Whether a call fails outright; then errno is set.
static int fails_outright(int k) {
  if (!fails(k)) return 0;
  errno = error;
  return 1;
}

#define REAL(type, name, ...)       \
  static type (*real)(__VA_ARGS__); \
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, #name)

void* malloc(size_t size) {
  return fails_outright(kAllocate) ? NULL : __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  return fails_outright(kAllocate) ? NULL : __libc_calloc(n, size);
}
void* realloc(void* old, size_t size) {
  return fails_outright(kAllocate) ? NULL : __libc_realloc(old, size);
}
void* memalign(size_t to, size_t size) {
  return fails_outright(kAllocate) ? NULL : __libc_memalign(to, size);
}
void* aligned_alloc(size_t to, size_t size) {
  return memalign(to, size);
}
int posix_memalign(void** place, size_t to, size_t size) {
  void* got = memalign(to, size);
  if (got == NULL) return ENOMEM;
  *place = got;
  return 0;
}

#define OPEN_MODE(flags)                        \
  mode_t mode = 0;                              \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list more;                               \
    va_start(more, flags);                      \
    mode = va_arg(more, mode_t);                \
    va_end(more);                               \
  }
int open(const char* path, int flags, ...) {
  OPEN_MODE(flags)
  REAL(int, open, const char*, int, mode_t);
  return fails_outright(kOpen) ? -1 : real(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  OPEN_MODE(flags)
  REAL(int, open64, const char*, int, mode_t);
  return fails_outright(kOpen) ? -1 : real(path, flags, mode);
}
int openat(int at, const char* path, int flags, ...) {
  OPEN_MODE(flags)
  REAL(int, openat, int, const char*, int, mode_t);
  return fails_outright(kOpen) ? -1 : real(at, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  REAL(FILE*, fopen, const char*, const char*);
  return fails_outright(kOpen) ? NULL : real(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  REAL(FILE*, fopen64, const char*, const char*);
  return fails_outright(kOpen) ? NULL : real(path, mode);
}
DIR* opendir(const char* path) {
  REAL(DIR*, opendir, const char*);
  return fails_outright(kOpen) ? NULL : real(path);
}
int mkostemp(char* path, int flags) {
  REAL(int, mkostemp, char*, int);
  return fails_outright(kOpen) ? -1 : real(path, flags);
}
int mkostemp64(char* path, int flags) {
  REAL(int, mkostemp64, char*, int);
  return fails_outright(kOpen) ? -1 : real(path, flags);
}
int mkdir(const char* path, mode_t mode) {
  REAL(int, mkdir, const char*, mode_t);
  return fails_outright(kOpen) ? -1 : real(path, mode);
}

// How much a call transfers: less than it was asked to, or nothing and errno.
#define TRANSFER(k)                \
  if (fails(k)) {                  \
    if (error != 0) {              \
      errno = error;               \
      return -1;                   \
    }                              \
    if (size > 1) size = size / 2; \
  }
ssize_t read(int fd, void* bytes, size_t size) {
  REAL(ssize_t, read, int, void*, size_t);
  TRANSFER(kRead)
  return real(fd, bytes, size);
}
ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  REAL(ssize_t, pread, int, void*, size_t, off_t);
  TRANSFER(kRead)
  return real(fd, bytes, size, at);
}
ssize_t pread64(int fd, void* bytes, size_t size, off64_t at) {
  REAL(ssize_t, pread64, int, void*, size_t, off64_t);
  TRANSFER(kRead)
  return real(fd, bytes, size, at);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  REAL(ssize_t, write, int, const void*, size_t);
  if (fd != STDERR_FILENO) {
    TRANSFER(kWrite)
  }
  const ssize_t written = real(fd, bytes, size);
  if (fd == STDOUT_FILENO && written > 0) told += (unsigned long long)written;
  return written;
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  REAL(ssize_t, pwrite, int, const void*, size_t, off_t);
  TRANSFER(kWrite)
  return real(fd, bytes, size, at);
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t at) {
  REAL(ssize_t, pwrite64, int, const void*, size_t, off64_t);
  TRANSFER(kWrite)
  return real(fd, bytes, size, at);
}

#define OF_A_FILE(k, name)                    \
  int name(int fd) {                          \
    REAL(int, name, int);                     \
    return fails_outright(k) ? -1 : real(fd); \
  }
OF_A_FILE(kSync, fsync)
OF_A_FILE(kSync, fdatasync)
int ftruncate(int fd, off_t size) {
  REAL(int, ftruncate, int, off_t);
  return fails_outright(kSync) ? -1 : real(fd, size);
}
int ftruncate64(int fd, off64_t size) {
  REAL(int, ftruncate64, int, off64_t);
  return fails_outright(kSync) ? -1 : real(fd, size);
}
// A file is closed even where close() fails.
int close(int fd) {
  REAL(int, close, int);
  const int closed = real(fd);
  return fails_outright(kSync) ? -1 : closed;
}

#define OF_TWO_PATHS(name)                                \
  int name(const char* from, const char* to) {            \
    REAL(int, name, const char*, const char*);            \
    return fails_outright(kRename) ? -1 : real(from, to); \
  }
OF_TWO_PATHS(rename)
OF_TWO_PATHS(link)

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* with) {
  REAL(int, pthread_create, pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  return fails_outright(kThread) ? error : real(thread, attributes, run, with);
}
