/* Library for LD_PRELOAD that sets TCP_NODELAY on every connection of a process. The C library
 * never sets it, so that an answer followed by an event waits for a delayed acknowledgement of 40
 * ms. With this library, the time is measured without that delay. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void set_no_delay(int fd)
{
    int one = 1;
    if (fd >= 0) {
        /* Sockets of other kinds refuse the option. */
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
}

int accept(int fd, struct sockaddr *address, socklen_t *length)
{
    int (*next)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
    int accepted = next(fd, address, length);
    set_no_delay(accepted);
    return accepted;
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    set_no_delay(fd);
    return next(fd, address, length);
}
