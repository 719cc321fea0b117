/* SPDX-License-Identifier: MIT */
/* A network switch in user space, for kernels that cannot delay packets.
 *
 *   delay_switch [-q BYTES] port=NODE,RATE,DELAY ... trunk=NODE,NODE,RATE,DELAY
 *
 * makes a TAP device for each port, port0 and so on in the order given, says
 * "ready", and switches until SIGTERM or until its parent has gone. Then it
 * prints as JSON what passed. RATE is in bit/s, 0 for no limit, DELAY in ns,
 * both one way and the same in both directions. Nodes are numbers from 0;
 * trunks join them to a tree.
 *
 * A frame passes a wire into the switch, the trunks on its way, and a wire out.
 * Each wire sends one frame after another at its rate. The head of a frame goes
 * on before its tail has come, as the packets do of which a frame of 64 KiB
 * stands in for: ports speak the virtio header, so the kernel leaves such
 * frames whole. Where a wire has BYTES waiting, further frames are dropped;
 * into the switch nothing is dropped, but a port is not read while much waits,
 * as a network card does.
 *
 * It goes before all other programs where it may, as no real switch waits for a
 * processor.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    VIRTIO_HEADER = sizeof(struct virtio_net_hdr),
    ETHERNET_HEADER = 14,
    TCP_HEADER = 20,
    FRAME_MAX = 80 * 1024, /* headers and 64 KiB */
    READS = 16,            /* of one port before the others have their turn */
    AHEAD = 128 * 1024,    /* bytes that may wait for the wire from a host */
    NO_NODE = -1
};

struct wire {
    double rate;     /* bit/s; 0: no limit */
    int64_t delay;   /* ns */
    int64_t free_at; /* when the last bit of what it was given has left */
    uint64_t bytes, frames, dropped;
};

struct port {
    int fd, node;
    struct wire in, out; /* as the switch sees it */
};

struct trunk {
    int ends[2];
    struct wire wires[2]; /* from ends[0], from ends[1] */
};

struct frame {
    int64_t when;   /* its head comes to `node`, or its tail to the port */
    int64_t tail;   /* when its last bit has left the wire before */
    uint64_t order; /* of frames with the same time */
    int node, to;   /* NO_NODE: on the last wire; to: a port */
    size_t bytes;   /* with the virtio header */
    unsigned char data[];
};

struct learned {
    unsigned char address[6];
    int port;
};

struct network {
    struct port *ports;
    struct trunk *trunks;
    struct learned *table;
    struct frame **heap; /* the earliest first */
    struct wire **next;  /* [node][node]: the first wire of the way */
    int *next_node;      /* [node][node]: where it ends */
    size_t heap_room, heap_size;
    int nports, ntrunks, nnodes, nlearned;
    uint64_t order;
    double queue_bits;
};

static volatile sig_atomic_t ended;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

static void die(const char *what)
{
    fprintf(stderr, "delay_switch: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *grow(void *old, size_t count, size_t each)
{
    void *const new = realloc(old, count * each);
    if (!new)
        die("no memory");
    return new;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- frames by time --------------------------------------------------------*/

static bool before(const struct frame *a, const struct frame *b)
{
    return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static void push(struct network *n, struct frame *f)
{
    if (n->heap_size == n->heap_room) {
        n->heap_room = n->heap_room ? 2 * n->heap_room : 1024;
        n->heap = grow(n->heap, n->heap_room, sizeof(*n->heap));
    }
    size_t i = n->heap_size++;
    f->order = n->order++;
    for (; i && before(f, n->heap[(i - 1) / 2]); i = (i - 1) / 2)
        n->heap[i] = n->heap[(i - 1) / 2];
    n->heap[i] = f;
}

static struct frame *pop(struct network *n)
{
    struct frame *const first = n->heap[0];
    struct frame *const last = n->heap[--n->heap_size];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n->heap_size)
            break;
        if (child + 1 < n->heap_size
            && before(n->heap[child + 1], n->heap[child]))
            child++;
        if (!before(n->heap[child], last))
            break;
        n->heap[i] = n->heap[child];
        i = child;
    }
    n->heap[i] = last;
    return first;
}

/* --- the way of a frame ----------------------------------------------------*/

static double waiting_bits(const struct wire *w, int64_t at)
{
    return w->free_at > at ? (double)(w->free_at - at) * 1e-9 * w->rate : 0;
}

/* As the packets that the frame stands in for, each with its headers; 0 for a
 * frame that is one packet. The kernel's header tells where the checksum of TCP
 * begins, and so TCP's own header, and how long the packets' contents are. */
static size_t further_headers(const struct frame *f)
{
    struct virtio_net_hdr header;
    memcpy(&header, f->data, sizeof(header));
    const size_t tcp = VIRTIO_HEADER + (size_t)header.csum_start;
    if (header.gso_type == VIRTIO_NET_HDR_GSO_NONE || !header.gso_size
        || tcp + TCP_HEADER > f->bytes)
        return 0;
    const size_t headers = tcp - VIRTIO_HEADER + (f->data[tcp + 12] >> 4) * 4u;
    const size_t content = f->bytes - VIRTIO_HEADER - headers;
    if (headers + VIRTIO_HEADER >= f->bytes)
        return 0;
    return (content - 1) / header.gso_size * headers;
}

/* The wire is busy for as long as the frame takes at its rate. A tail that a
 * slower wire before brings later keeps nobody else from the time between. */
static void carry(struct wire *w, struct frame *f)
{
    const size_t bytes = f->bytes - VIRTIO_HEADER + further_headers(f);
    const int64_t start = w->free_at > f->when ? w->free_at : f->when;
    w->free_at = start;
    if (w->rate > 0)
        w->free_at += (int64_t)(8e9 * (double)bytes / w->rate);
    f->tail = (f->tail > w->free_at ? f->tail : w->free_at) + w->delay;
    f->when = start + w->delay;
    w->bytes += bytes;
    w->frames++;
}

static void deliver(struct network *n, struct frame *f)
{
    struct port *const p = &n->ports[f->to];
    if (write(p->fd, f->data, f->bytes) < 0)
        p->out.dropped++; /* the host's end is down, say */
    free(f);
}

/* The next wire of its way. */
static struct wire *wire_of(struct network *n, const struct frame *f)
{
    struct port *const p = &n->ports[f->to];
    return f->node == p->node ? &p->out
                              : n->next[f->node * n->nnodes + p->node];
}

/* Over one wire; false: it is dropped. */
static bool cross(struct network *n, struct frame *f)
{
    struct wire *const w = wire_of(n, f);
    if (waiting_bits(w, f->when) > n->queue_bits) {
        w->dropped++;
        free(f);
        return false;
    }
    carry(w, f);
    if (w == &n->ports[f->to].out) {
        f->node = NO_NODE;
        f->when = f->tail;
    } else {
        f->node = n->next_node[f->node * n->nnodes + n->ports[f->to].node];
    }
    return true;
}

/* A wire without a limit does the same to a frame at any time, so only before
 * others need it wait for its turn. */
static void send_on(struct network *n, struct frame *f)
{
    while (f->node != NO_NODE && wire_of(n, f)->rate <= 0)
        if (!cross(n, f))
            return;
    push(n, f);
}

/* What happens to a frame at its time. */
static void advance(struct network *n, struct frame *f)
{
    if (f->node == NO_NODE)
        deliver(n, f);
    else if (cross(n, f))
        send_on(n, f);
}

/* --- who is where ----------------------------------------------------------*/

static int find(const struct network *n, const unsigned char *address)
{
    int i = 0;
    while (i < n->nlearned && memcmp(n->table[i].address, address, 6) != 0)
        i++;
    return i;
}

static void learn(struct network *n, const unsigned char *address, int port)
{
    const int i = find(n, address);
    if (i == n->nlearned) {
        n->table = grow(n->table, (size_t)++n->nlearned, sizeof(*n->table));
        memcpy(n->table[i].address, address, 6);
    }
    n->table[i].port = port;
}

static void send_copy(struct network *n, const struct frame *f, int to)
{
    struct frame *const copy = grow(NULL, 1, sizeof(*f) + f->bytes);
    memcpy(copy, f, sizeof(*f) + f->bytes);
    copy->to = to;
    send_on(n, copy);
}

/* Takes a frame whose wire into the switch has carried it. */
static void forward(struct network *n, const struct frame *f, int from)
{
    const unsigned char *const to = f->data + VIRTIO_HEADER;
    const int known = to[0] & 1 ? n->nlearned : find(n, to);
    learn(n, to + 6, from);
    if (known < n->nlearned && n->table[known].port != from)
        send_copy(n, f, n->table[known].port);
    else if (known == n->nlearned || to[0] & 1)
        for (int p = 0; p < n->nports; p++)
            if (p != from)
                send_copy(n, f, p);
}

/* --- ports -----------------------------------------------------------------*/

static bool may_read(const struct port *p, int64_t at)
{
    return waiting_bits(&p->in, at) < 8.0 * AHEAD;
}

static void read_port(struct network *n, int from, struct frame *f)
{
    struct port *const p = &n->ports[from];
    for (int i = 0; i < READS && may_read(p, now()); i++) {
        const ssize_t bytes = read(p->fd, f->data, FRAME_MAX);
        if (bytes < VIRTIO_HEADER + ETHERNET_HEADER)
            return;
        f->bytes = (size_t)bytes;
        f->node = p->node;
        f->when = f->tail = now();
        carry(&p->in, f);
        forward(n, f, from);
    }
}

static void open_port(struct port *p, int number)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    const int header = VIRTIO_HEADER;
    snprintf(request.ifr_name, sizeof(request.ifr_name), "port%d", number);
    p->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (p->fd < 0)
        die("/dev/net/tun");
    if (ioctl(p->fd, TUNSETIFF, &request) < 0)
        die(request.ifr_name);
    if (ioctl(p->fd, TUNSETVNETHDRSZ, &header) < 0
        || ioctl(p->fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)
               < 0)
        die("large frames");
}

/* --- the tree --------------------------------------------------------------*/

/* Walks from `at` away from `from`; all that is found there is reached from
 * `root` by the wire `first` that ends in `first_node`. */
static void walk(struct network *n, int root, int at, int from,
                 struct wire *first, int first_node)
{
    n->next[root * n->nnodes + at] = first;
    n->next_node[root * n->nnodes + at] = first_node;
    for (int t = 0; t < n->ntrunks; t++)
        for (int end = 0; end < 2; end++) {
            struct trunk *const trunk = &n->trunks[t];
            const int other = trunk->ends[!end];
            if (trunk->ends[end] != at || other == from || other == root
                || n->next[root * n->nnodes + other])
                continue;
            if (at == root)
                walk(n, root, other, at, &trunk->wires[end], other);
            else
                walk(n, root, other, at, first, first_node);
        }
}

static void find_ways(struct network *n)
{
    const size_t pairs = (size_t)n->nnodes * (size_t)n->nnodes;
    n->next = grow(NULL, pairs, sizeof(struct wire *));
    n->next_node = grow(NULL, pairs, sizeof(int));
    memset(n->next, 0, pairs * sizeof(struct wire *));
    for (int root = 0; root < n->nnodes; root++)
        walk(n, root, root, NO_NODE, NULL, root);
    for (int i = 0; i < n->nports; i++)
        for (int j = 0; j < n->nports; j++) {
            const int a = n->ports[i].node, b = n->ports[j].node;
            if (a != b && !n->next[a * n->nnodes + b]) {
                fprintf(stderr,
                        "delay_switch: no trunk leads from node %d to "
                        "node %d\n",
                        a, b);
                exit(2);
            }
        }
}

static void see_node(struct network *n, int node)
{
    if (node < 0 || node > 1 << 10) {
        fprintf(stderr, "delay_switch: node %d is not from 0 to 1024\n", node);
        exit(2);
    }
    if (node >= n->nnodes)
        n->nnodes = node + 1;
}

static void add(struct network *n, const char *word)
{
    int a, b;
    double rate, delay;
    if (sscanf(word, "port=%d,%lf,%lf", &a, &rate, &delay) == 3) {
        const struct wire wire = {.rate = rate, .delay = (int64_t)delay};
        n->ports = grow(n->ports, (size_t)n->nports + 1, sizeof(*n->ports));
        n->ports[n->nports++] =
            (struct port){.fd = -1, .node = a, .in = wire, .out = wire};
        see_node(n, a);
    } else if (sscanf(word, "trunk=%d,%d,%lf,%lf", &a, &b, &rate, &delay)
               == 4) {
        const struct wire wire = {.rate = rate, .delay = (int64_t)delay};
        n->trunks = grow(n->trunks, (size_t)n->ntrunks + 1, sizeof(*n->trunks));
        n->trunks[n->ntrunks++] = (struct trunk){
            {a,    b   },
            {wire, wire}
        };
        see_node(n, a);
        see_node(n, b);
    } else {
        fprintf(stderr,
                "delay_switch: found \"%s\", valid is port=NODE,RATE,DELAY or "
                "trunk=NODE,NODE,RATE,DELAY\n",
                word);
        exit(2);
    }
}

/* --- all together ----------------------------------------------------------*/

/* Sleeps until a frame is due, a port may be read again, or one can be. */
static void sleep_on(struct network *n, struct pollfd *fds, int64_t at,
                     const sigset_t *awake)
{
    int64_t next = n->heap_size ? n->heap[0]->when : INT64_MAX;
    for (int i = 0; i < n->nports; i++) {
        const struct port *const p = &n->ports[i];
        const bool may = may_read(p, at);
        fds[i] = (struct pollfd){.fd = may ? p->fd : -1, .events = POLLIN};
        if (may)
            continue;
        const int64_t again =
            p->in.free_at - (int64_t)(8e9 * AHEAD / p->in.rate) + 1;
        next = again < next ? again : next;
    }
    const int64_t left = next > at ? next - at : 0;
    const struct timespec pause = {.tv_sec = left / 1000000000,
                                   .tv_nsec = left % 1000000000};
    if (ppoll(fds, (nfds_t)n->nports, next < INT64_MAX ? &pause : NULL, awake)
        < 0)
        for (int i = 0; i < n->nports; i++)
            fds[i].revents = 0;
}

static void serve(struct network *n, const sigset_t *awake)
{
    struct frame *const f = grow(NULL, 1, sizeof(*f) + FRAME_MAX);
    struct pollfd *const fds = grow(NULL, (size_t)n->nports, sizeof(*fds));
    while (!ended) {
        const int64_t at = now();
        while (n->heap_size && n->heap[0]->when <= at)
            advance(n, pop(n));
        sleep_on(n, fds, at, awake);
        for (int i = 0; i < n->nports; i++)
            if (fds[i].revents & POLLIN)
                read_port(n, i, f);
    }
    free(f);
    free(fds);
}

static void print_wire(const char *name, const struct wire *w)
{
    printf("\"%s\": {\"bytes\": %ju, \"frames\": %ju, \"dropped\": %ju}", name,
           (uintmax_t)w->bytes, (uintmax_t)w->frames, (uintmax_t)w->dropped);
}

static void print_counters(const struct network *n)
{
    printf("{\"ports\": [");
    for (int i = 0; i < n->nports; i++) {
        printf(i ? ",\n {" : "\n {");
        print_wire("tx", &n->ports[i].in); /* the host sends */
        printf(", ");
        print_wire("rx", &n->ports[i].out);
        printf("}");
    }
    printf("],\n \"trunks\": [");
    for (int i = 0; i < n->ntrunks; i++) {
        printf(i ? ",\n {" : "\n {");
        print_wire("forth", &n->trunks[i].wires[0]);
        printf(", ");
        print_wire("back", &n->trunks[i].wires[1]);
        printf("}");
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    struct network n = {.queue_bits = 8.0 * (4 << 20)};
    const struct sigaction action = {.sa_handler = end};
    sigset_t block, awake;
    const pid_t parent = getppid();
    int option;
    while ((option = getopt(argc, argv, "q:")) == 'q')
        n.queue_bits = 8 * atof(optarg);
    for (int i = optind; i < argc; i++)
        add(&n, argv[i]);
    if (option != -1 || !n.nports) {
        fprintf(stderr, "usage: delay_switch [-q BYTES] port=NODE,RATE,DELAY "
                        "... trunk=NODE,NODE,RATE,DELAY ...\n");
        return 2;
    }
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    sigaddset(&block, SIGINT);
    sigprocmask(SIG_BLOCK, &block, &awake);
    sigdelset(&awake, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        return 1;
    prctl(PR_SET_TIMERSLACK, 1); /* ns */
    sched_setscheduler(0, SCHED_FIFO,
                       &(struct sched_param){.sched_priority = 1});
    find_ways(&n);
    for (int i = 0; i < n.nports; i++)
        open_port(&n.ports[i], i);
    puts("ready");
    fflush(stdout);
    serve(&n, &awake);
    print_counters(&n);
    return fflush(stdout) != 0;
}
