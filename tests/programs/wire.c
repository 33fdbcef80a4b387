/* Wires between TAP devices, one from each to each other and in each direction, on which every frame takes the same
 * time and only so many bytes pass in a second: the links between sites, on kernels that cannot delay packets.
 * wire DELAY_US BYTES_PER_S DEVICE DEVICE...; ends with its parent. */
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
#define ENDS_MAX 8
#define ADDRESS 6 /* bytes of an Ethernet address; a frame has that of its destination, then that of its source */
#define ADDRESSES_MAX 256

struct frame {
    int64_t due;
    size_t length;
    unsigned char bytes[FRAME_MAX];
};

/* From one end to another. */
struct wire {
    int64_t busy_until;
    size_t first, count;
    struct frame frames[FRAMES_MAX];
};

static struct wire wires[ENDS_MAX][ENDS_MAX];
static struct pollfd ends[ENDS_MAX];
static int ends_count;

/* Which end an address was last heard from. */
static struct {
    unsigned char address[ADDRESS];
    int end;
} known[ADDRESSES_MAX];
static int known_count;

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

static int end_of(const unsigned char *address)
{
    for (int i = 0; i < known_count; i++)
        if (memcmp(known[i].address, address, ADDRESS) == 0)
            return i;
    return -1;
}

static void learn(const unsigned char *address, int end)
{
    int place = end_of(address);
    if (place < 0 && known_count == ADDRESSES_MAX)
        return;
    if (place < 0)
        memcpy(known[place = known_count++].address, address, ADDRESS);
    known[place].end = end;
}

static void put(struct wire *wire, const unsigned char *bytes, size_t length, int64_t delay, int64_t bytes_per_s)
{
    if (wire->count == FRAMES_MAX)
        return;
    struct frame *frame = &wire->frames[(wire->first + wire->count++) % FRAMES_MAX];
    int64_t begins = now() > wire->busy_until ? now() : wire->busy_until;
    wire->busy_until = begins + (int64_t)length * SECOND / bytes_per_s;
    memcpy(frame->bytes, bytes, length);
    frame->length = length;
    frame->due = wire->busy_until + delay;
}

/* A frame for an address that was not heard of goes to all other ends. */
static void take(int from, int64_t delay, int64_t bytes_per_s)
{
    unsigned char bytes[FRAME_MAX];
    ssize_t length;
    while ((length = read(ends[from].fd, bytes, sizeof bytes)) >= 2 * ADDRESS) {
        learn(bytes + ADDRESS, from);
        int place = end_of(bytes);
        for (int to = 0; to < ends_count; to++)
            if (to != from && (place < 0 || known[place].end == to))
                put(&wires[from][to], bytes, (size_t)length, delay, bytes_per_s);
    }
}

/* Lets out what has arrived; the time of the next frame, or -1. */
static int64_t deliver(struct wire *wire, int to)
{
    while (wire->count > 0) {
        struct frame *frame = &wire->frames[wire->first];
        if (frame->due > now())
            return frame->due;
        if (write(ends[to].fd, frame->bytes, frame->length) < 0 && errno != EAGAIN && errno != EIO)
            perror("write");
        wire->first = (wire->first + 1) % FRAMES_MAX;
        wire->count--;
    }
    return -1;
}

int main(int count, char **arguments)
{
    ends_count = count - 3;
    if (ends_count < 2 || ends_count > ENDS_MAX) {
        fprintf(stderr, "usage: wire DELAY_US BYTES_PER_S DEVICE DEVICE... (up to %d)\n", ENDS_MAX);
        return 2;
    }
    int64_t delay = atoll(arguments[1]) * 1000, bytes_per_s = atoll(arguments[2]);
    /* Else every frame is late by the kernel's 50 us. */
    prctl(PR_SET_TIMERSLACK, 1000);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int end = 0; end < ends_count; end++)
        ends[end] = (struct pollfd){.fd = open_device(arguments[3 + end]), .events = POLLIN};
    for (;;) {
        int64_t next = -1;
        for (int from = 0; from < ends_count; from++)
            for (int to = 0; to < ends_count; to++) {
                int64_t due = deliver(&wires[from][to], to);
                if (due >= 0 && (next < 0 || due < next))
                    next = due;
            }
        int64_t wait = next - now();
        if (wait < 0)
            wait = 0; /* it fell due meanwhile; a negative time would be an error */
        struct timespec time = {.tv_sec = wait / SECOND, .tv_nsec = wait % SECOND};
        if (ppoll(ends, (nfds_t)ends_count, next < 0 ? NULL : &time, NULL) < 0 && errno != EINTR)
            return 1;
        for (int end = 0; end < ends_count; end++)
            if (ends[end].revents & POLLIN)
                take(end, delay, bytes_per_s);
    }
}
