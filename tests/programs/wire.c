/* A wire between two TAP devices on which every frame takes the same time and only so many bytes pass in a second: the
 * link between two sites, on kernels that cannot delay packets. wire DELAY_US BYTES_PER_S DEVICE DEVICE; ends with its
 * parent. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define FRAME_MAX 2048
#define FRAMES_MAX 256 /* on their way in one direction; more are dropped, as by any router */
#define SECOND 1000000000LL

struct frame {
    int64_t due;
    size_t length;
    unsigned char bytes[FRAME_MAX];
};

struct direction {
    int from, to;
    int64_t busy_until;
    size_t first, count;
    struct frame frames[FRAMES_MAX];
};

static struct direction ways[2];

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

static int open_device(const char *name)
{
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (device < 0 || ioctl(device, TUNSETIFF, &request) < 0) {
        perror(name);
        exit(1);
    }
    return device;
}

static void take(struct direction *way, int64_t delay, int64_t bytes_per_s)
{
    static unsigned char spare[FRAME_MAX];
    for (;;) {
        struct frame *frame = &way->frames[(way->first + way->count) % FRAMES_MAX];
        int is_full = way->count == FRAMES_MAX;
        ssize_t length = read(way->from, is_full ? spare : frame->bytes, FRAME_MAX);
        if (length <= 0)
            return;
        if (is_full)
            continue;
        int64_t begins = now() > way->busy_until ? now() : way->busy_until;
        way->busy_until = begins + length * SECOND / bytes_per_s;
        frame->length = (size_t)length;
        frame->due = way->busy_until + delay;
        way->count++;
    }
}

/* Lets out what has arrived; the time of the next frame, or -1. */
static int64_t deliver(struct direction *way)
{
    while (way->count > 0) {
        struct frame *frame = &way->frames[way->first];
        if (frame->due > now())
            return frame->due;
        if (write(way->to, frame->bytes, frame->length) < 0 && errno != EAGAIN && errno != EIO)
            perror("write");
        way->first = (way->first + 1) % FRAMES_MAX;
        way->count--;
    }
    return -1;
}

int main(int count, char **arguments)
{
    if (count != 5) {
        fprintf(stderr, "usage: wire DELAY_US BYTES_PER_S DEVICE DEVICE\n");
        return 2;
    }
    int64_t delay = atoll(arguments[1]) * 1000, bytes_per_s = atoll(arguments[2]);
    /* Else every frame is late by the kernel's 50 us. */
    prctl(PR_SET_TIMERSLACK, 1000);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct pollfd ends[2];
    for (int end = 0; end < 2; end++)
        ends[end] = (struct pollfd){.fd = open_device(arguments[3 + end]), .events = POLLIN};
    for (int end = 0; end < 2; end++) {
        ways[end].from = ends[end].fd;
        ways[end].to = ends[1 - end].fd;
    }
    for (;;) {
        int64_t next = -1;
        for (int end = 0; end < 2; end++) {
            int64_t due = deliver(&ways[end]);
            if (due >= 0 && (next < 0 || due < next))
                next = due;
        }
        int64_t wait = next - now();
        if (wait < 0)
            wait = 0; /* it fell due meanwhile; a negative time would be an error */
        struct timespec time = {.tv_sec = wait / SECOND, .tv_nsec = wait % SECOND};
        if (ppoll(ends, 2, next < 0 ? NULL : &time, NULL) < 0 && errno != EINTR)
            return 1;
        for (int end = 0; end < 2; end++)
            if (ends[end].revents & POLLIN)
                take(&ways[end], delay, bytes_per_s);
    }
}
