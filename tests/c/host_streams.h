/* Standard streams of the procs in host.c. It reads the output of each proc, writes it to its own
 * output, and delivers it to those that pull it. What procs push goes to the input of one proc.
 *
 * Included by host.c; not a program. */
#ifndef HOST_STREAMS_H
#define HOST_STREAMS_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmix_server.h>

#define MAX_STREAMS 2048

/* Output of a proc. */
struct stream {
    pmix_proc_t source;
    pmix_iof_channel_t channel;
    int from, to;
    pthread_t thread;
};

/* Rank that gets what procs push; without one no streams are forwarded. */
static pmix_rank_t input_rank = PMIX_RANK_INVALID;
static int input = -1;
static struct stream streams[MAX_STREAMS];
static size_t nstreams;

static bool write_all(int to, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(to, bytes, length);
        if (written < 0 && EINTR != errno) {
            return false;
        }
        bytes += written > 0 ? written : 0;
        length -= written > 0 ? (size_t) written : 0;
    }
    return true;
}

/* Copies a stream until its end, which is delivered, too. */
static void *copy_stream(void *argument)
{
    struct stream *stream = argument;
    char bytes[4096];
    ssize_t length;
    do {
        length = read(stream->from, bytes, sizeof bytes);
        length = length < 0 ? 0 : length;
        write_all(stream->to, bytes, (size_t) length);
        pmix_byte_object_t piece = {.bytes = bytes, .size = (size_t) length};
        pmix_status_t status = PMIx_server_IOF_deliver(&stream->source, stream->channel, &piece, NULL, 0, NULL, NULL);
        if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) {
            fprintf(stderr, "host: output of rank %u: %s\n", stream->source.rank, PMIx_Error_string(status));
        }
    } while (length > 0);
    close(stream->from);
    return NULL;
}

/* Pipes of a proc, which are made before it is forked: the ends of the proc first. */
struct pipes {
    int out[2], err[2], in[2];
};

static void make_pipes(struct pipes *pipes)
{
    if (0 != pipe2(pipes->out, O_CLOEXEC) || 0 != pipe2(pipes->err, O_CLOEXEC) || 0 != pipe2(pipes->in, O_CLOEXEC)) {
        perror("pipe");
        exit(125);
    }
}

/* In the proc. */
static void use_pipes(const struct pipes *pipes)
{
    dup2(pipes->in[0], STDIN_FILENO);
    dup2(pipes->out[1], STDOUT_FILENO);
    dup2(pipes->err[1], STDERR_FILENO);
}

static void follow(const pmix_proc_t *source, pmix_iof_channel_t channel, int from, int to)
{
    if (nstreams == MAX_STREAMS) {
        return;
    }
    struct stream *stream = &streams[nstreams++];
    *stream = (struct stream) {.source = *source, .channel = channel, .from = from, .to = to};
    pthread_create(&stream->thread, NULL, copy_stream, stream);
}

/* In the host. */
static void keep_pipes(const struct pipes *pipes, const pmix_proc_t *proc)
{
    close(pipes->out[1]);
    close(pipes->err[1]);
    close(pipes->in[0]);
    if (proc->rank == input_rank) {
        input = pipes->in[1];
    } else {
        close(pipes->in[1]);
    }
    follow(proc, PMIX_FWD_STDOUT_CHANNEL, pipes->out[0], STDOUT_FILENO);
    follow(proc, PMIX_FWD_STDERR_CHANNEL, pipes->err[0], STDERR_FILENO);
}

static void await_streams(void)
{
    for (size_t n = 0; n < nstreams; n++) {
        pthread_join(streams[n].thread, NULL);
    }
}

/* All output of the job is delivered in any case. */
static pmix_status_t iof_pull(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t directives[],
                              size_t ndirectives, pmix_iof_channel_t channels, pmix_op_cbfunc_t done, void *data)
{
    (void) directives, (void) ndirectives, (void) channels, (void) done, (void) data;
    for (size_t n = 0; n < nprocs; n++) {
        if (0 != strcmp(procs[n].nspace, "job")) {
            return PMIX_ERR_NOT_FOUND;
        }
    }
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t push_stdin(const pmix_proc_t *source, const pmix_proc_t targets[], size_t ntargets,
                                const pmix_info_t directives[], size_t ndirectives, const pmix_byte_object_t *bytes,
                                pmix_op_cbfunc_t done, void *data)
{
    (void) source, (void) directives, (void) ndirectives, (void) done, (void) data;
    if (1 != ntargets || targets[0].rank != input_rank || input < 0) {
        return PMIX_ERR_NOT_FOUND;
    }
    if (NULL == bytes || 0 == bytes->size) {
        close(input);
        input = -1;
        return PMIX_OPERATION_SUCCEEDED;
    }
    return write_all(input, bytes->bytes, bytes->size) ? PMIX_OPERATION_SUCCEEDED : PMIX_ERR_UNREACH;
}

#endif
