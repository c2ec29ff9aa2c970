/* Synchronization of the procs of a measurement outside of PMIx. A directory holds six files:
 * - tally: each arrival appends to it. Its length is the number of arrivals of all procs, counted
 *   without a lock.
 * - last: a pipe to which the last arrival of each round writes its time.
 * - leave: a pipe from which each waiting proc reads one byte.
 * - turn: a pipe from which rank 0 reads a byte when it is its job's turn to measure.
 * - over: a pipe to which rank 0 writes a byte after its turn.
 * - times: the times that each proc has measured, for rank 0 (turns.h).
 * The time of an arrival is taken before all of this. */
#ifndef ARRIVALS_H
#define ARRIVALS_H
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct arrivals {
    const char *dir;
    int tally, last, leave, turn, over, times;
};

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static inline int open_in(const char *dir, const char *name, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    return fd;
}

static inline void open_arrivals(struct arrivals *arrivals, const char *dir)
{
    arrivals->tally = open_in(dir, "tally", O_WRONLY | O_APPEND);
    /* Pipes are opened for reading and writing, so that neither end waits for the other. */
    arrivals->last = open_in(dir, "last", O_RDWR);
    arrivals->leave = open_in(dir, "leave", O_RDWR);
    arrivals->dir = dir;
    arrivals->turn = -1;
    arrivals->over = open_in(dir, "over", O_RDWR);
    arrivals->times = open_in(dir, "times", O_RDWR);
}

static inline void need_bytes(ssize_t done, size_t wanted, const char *what)
{
    if (done != (ssize_t) wanted) {
        perror(what);
        _exit(EXIT_FAILURE);
    }
}

/* Records one of `round` arrivals. */
static inline void arrive(struct arrivals *arrivals, uint64_t at, uint32_t round)
{
    need_bytes(write(arrivals->tally, "", 1), 1, "tally");
    if (0 == lseek(arrivals->tally, 0, SEEK_CUR) % round) {
        need_bytes(write(arrivals->last, &at, sizeof at), sizeof at, "last");
    }
}

/* Returns the time of the last arrival of a round. */
static inline uint64_t await_last(struct arrivals *arrivals)
{
    uint64_t at;
    need_bytes(read(arrivals->last, &at, sizeof at), sizeof at, "last");
    return at;
}

static inline void await_byte(int pipe, const char *what)
{
    char byte;
    need_bytes(read(pipe, &byte, 1), 1, what);
}

static inline void await_leave(struct arrivals *arrivals) { await_byte(arrivals->leave, "leave"); }

/* Lets one waiting proc continue. */
static inline void let_leave(struct arrivals *arrivals) { need_bytes(write(arrivals->leave, "", 1), 1, "leave"); }

/* Ends the program if the process that gives the turns has ended. */
static inline void await_turn(struct arrivals *arrivals)
{
    if (arrivals->turn < 0) {
        arrivals->turn = open_in(arrivals->dir, "turn", O_RDONLY);
    }
    await_byte(arrivals->turn, "turn");
}

static inline void turn_is_over(struct arrivals *arrivals) { need_bytes(write(arrivals->over, "", 1), 1, "over"); }
#endif
