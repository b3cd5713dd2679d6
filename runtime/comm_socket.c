/* Messages between the processes of a mesh over TCP, for those that meet through a file instead of by MPI: what
 * comm_plugin.h asks of a plug-in, here in the object. Rank 0 writes into the file where it listens; all others tell it
 * where they do, and then everybody is linked to everybody. A link that closes is a rank that has ended. */
#include "runtime/comm_ranks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ADDRESSES = 8, NOTICES = 64, RETRY_NS = 20000000, CONNECT_NS = 2000000000, FLUSH_NS = 1000000000 };
enum { MESSAGE, NOTICE };

struct address {  /* where a rank listens; in the order of the network: addresses and port */
    uint64_t run; /* of rank 0: which of all runs that this file has seen; of others the same */
    uint32_t rank, ranks, ip[ADDRESSES], count, port;
};
struct frame {
    uint64_t bytes;
    uint32_t kind, tag;
};
struct arrived { /* before it was asked for */
    struct arrived *next;
    struct frame frame;
    char data[];
};
struct outgoing {
    struct outgoing *next;
    struct frame frame;
    const char *data;
    uint64_t sent;
    char own[]; /* of a notice */
};
struct incoming {
    char *data;
    uint64_t bytes;
    uint32_t peer, tag;
    bool done;
};
struct link {
    int fd; /* -1: none */
    bool left;
    struct frame frame; /* that is being received: so many bytes of it and what follows it */
    uint64_t got;
    char *to;
    struct incoming *of;
    struct arrived *early, *arrived;
    struct outgoing *out;
    struct stepc_notice notice;
};
struct world {
    uint32_t rank, ranks;
    struct link *links;
    struct incoming *asked;
    uint32_t asked_count, asked_room;
    bool under_way; /* messages that `poll` has not called ended yet */
    bool fatal;     /* and `why` says it */
    struct stepc_notice heard[NOTICES];
    uint32_t heard_first, heard_end;
    bool some_ended; /* without a word; the first of them */
    uint32_t ended;
    char why[160];
};

/* ---------------------------------------------------------------- meeting */

static bool transfer(int fd, void *data, size_t bytes, bool out, uint64_t until)
{
    for (size_t at = 0; at < bytes;) {
        struct pollfd p = {.fd = fd, .events = out ? POLLOUT : POLLIN};
        if (until && rt_now() > until) return false;
        if (poll(&p, 1, 100) <= 0) continue;
        ssize_t n = out ? send(fd, (char *)data + at, bytes - at, MSG_NOSIGNAL)
                        : recv(fd, (char *)data + at, bytes - at, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static void tune(int fd)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

/* Where this process listens: its addresses, this machine's own last. */
static int listen_at(struct address *a, uint32_t backlog)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t length = sizeof any;
    struct ifaddrs *all = NULL;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof any) || listen(fd, (int)backlog + 8) ||
        getsockname(fd, (struct sockaddr *)&any, &length) || getifaddrs(&all)) {
        if (fd >= 0) close(fd);
        return -1;
    }
    a->port = any.sin_port;
    for (const struct ifaddrs *i = all; i && a->count < ADDRESSES - 1; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
        uint32_t ip = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr;
        if (ip != htonl(INADDR_LOOPBACK)) a->ip[a->count++] = ip;
    }
    a->ip[a->count++] = htonl(INADDR_LOOPBACK);
    freeifaddrs(all);
    return fd;
}

/* A link to whom `to` says, who knows then who this is; -1: nobody there, or another one. `sure`: it is there, and may
 * take its time to answer; else what listens may be a stranger, who never does. */
static int call(const struct address *to, const struct address *me, bool sure, uint64_t until)
{
    for (uint32_t i = 0; i < to->count && i < ADDRESSES; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = (in_port_t)to->port, .sin_addr = {to->ip[i]}};
        struct address who = *me, answer;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
        socklen_t length = sizeof error;
        uint64_t soon = rt_now() + CONNECT_NS;
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        if (until && soon > until) soon = until;
        who.run = to->run;
        bool ok = fd >= 0 && (!connect(fd, (struct sockaddr *)&at, sizeof at) || errno == EINPROGRESS) &&
                  poll(&p, 1, CONNECT_NS / 1000000) == 1 && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) &&
                  !error;
        ok = ok && transfer(fd, &who, sizeof who, true, soon) &&
             transfer(fd, &answer, sizeof answer, false, sure ? until : soon);
        if (ok && answer.run == to->run && answer.rank == to->rank) {
            tune(fd);
            return fd;
        }
        if (fd >= 0) close(fd);
    }
    return -1;
}

/* One that calls and is of this run; -1: none in time, or this process takes none, as errno says. */
static int answer(int listener, const struct address *me, struct address *who, uint64_t until)
{
    while (!until || rt_now() < until) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (poll(&p, 1, 100) <= 0) continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct address own = *me;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) return -1;
        if (fd < 0) continue;
        if (transfer(fd, who, sizeof *who, false, rt_now() + CONNECT_NS) && who->run == me->run &&
            transfer(fd, &own, sizeof own, true, rt_now() + CONNECT_NS)) {
            tune(fd);
            return fd;
        }
        close(fd);
    }
    errno = ETIMEDOUT;
    return -1;
}

static bool publish(const char *path, const struct address *me)
{
    char own[4096];
    if (snprintf(own, sizeof own, "%s.%d", path, (int)getpid()) >= (int)sizeof own) return false;
    int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, me, sizeof *me) == sizeof *me;
    if (fd >= 0) ok &= close(fd) == 0;
    if (ok) ok = rename(own, path) == 0;
    if (!ok) unlink(own);
    return ok;
}

/* Rank 0 hears all others and tells them where all listen. */
static bool gather(struct world *w, int listener, const struct address *me, struct address *table, uint64_t until,
                   char *why, size_t size)
{
    for (uint32_t n = 1; n < w->ranks; n++) {
        struct address who;
        int fd = answer(listener, me, &who, until);
        if (fd < 0) return snprintf(why, size, "%u of %u ranks came: %s", n, w->ranks, strerror(errno)), false;
        if (!who.rank || who.rank >= w->ranks || who.ranks != w->ranks || w->links[who.rank].fd >= 0) {
            close(fd);
            return snprintf(why, size, "rank %u of %u came to %u ranks, which is wrong, or one too many", who.rank,
                            who.ranks, w->ranks),
                   false;
        }
        w->links[who.rank].fd = fd;
        table[who.rank] = who;
    }
    for (uint32_t k = 1; k < w->ranks; k++)
        if (!transfer(w->links[k].fd, table, w->ranks * sizeof *table, true, until))
            return snprintf(why, size, "rank %u went away", k), false;
    return true;
}

/* A file of an earlier run names somebody who is not there, or is another one. */
static bool find_first(struct world *w, const char *path, struct address *me, struct address *table, uint64_t until,
                       char *why, size_t size)
{
    while (!until || rt_now() < until) {
        struct address first;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        bool read_it = fd >= 0 && read(fd, &first, sizeof first) == sizeof first;
        if (fd >= 0) close(fd);
        int link = read_it && first.ranks == w->ranks && !first.rank ? call(&first, me, false, until) : -1;
        if (link >= 0 && transfer(link, table, w->ranks * sizeof *table, false, until)) {
            w->links[0].fd = link;
            me->run = first.run;
            return true;
        }
        if (link >= 0) close(link);
        nanosleep(&(struct timespec){0, RETRY_NS}, NULL);
    }
    return snprintf(why, size, "rank 0 of %u was not found by %s, or not all ranks came", w->ranks, path), false;
}

static bool link_all(struct world *w, const char *path, uint64_t until, char *why, size_t size)
{
    struct address me = {.rank = w->rank, .ranks = w->ranks}, who, *table = calloc(w->ranks, sizeof *table);
    int listener = table ? listen_at(&me, w->ranks) : -1;
    bool ok = listener >= 0 && getrandom(&me.run, sizeof me.run, 0) == sizeof me.run;
    if (!ok) snprintf(why, size, "no socket to listen at: %s", strerror(errno));
    if (ok && !w->rank) {
        table[0] = me;
        ok = publish(path, &me);
        if (!ok) snprintf(why, size, "%s cannot be written: %s", path, strerror(errno));
        ok = ok && gather(w, listener, &me, table, until, why, size);
        unlink(path);
    } else if (ok) ok = find_first(w, path, &me, table, until, why, size);
    for (uint32_t k = 1; ok && w->rank && k < w->rank; k++) {
        table[k].run = me.run;
        ok = (w->links[k].fd = call(&table[k], &me, true, until)) >= 0;
        if (!ok) snprintf(why, size, "rank %u does not answer", k);
    }
    for (uint32_t k = w->rank + 1; ok && w->rank && k < w->ranks; k++) {
        int fd = answer(listener, &me, &who, until);
        ok = fd >= 0 && who.rank > w->rank && who.rank < w->ranks && w->links[who.rank].fd < 0;
        if (ok) w->links[who.rank].fd = fd;
        else snprintf(why, size, "not all ranks came%s%s", fd < 0 ? ": " : "", fd < 0 ? strerror(errno) : "");
    }
    if (listener >= 0) close(listener);
    free(table);
    return ok;
}

/* ---------------------------------------------------------------- what goes over a link */

static bool waits_for(void *world, uint32_t rank)
{
    const struct world *w = world;
    bool some = w->links[rank].out != NULL;
    for (uint32_t i = 0; i < w->asked_count; i++) some |= !w->asked[i].done && w->asked[i].peer == rank;
    return some;
}

static bool gone(struct world *w, uint32_t peer)
{
    struct link *l = &w->links[peer];
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
    if (!l->left && !w->some_ended) w->some_ended = true, w->ended = peer;
    return false;
}

/* Of several that have ended the first that is waited for is named: others may have ended for its sake. */
static void name_who_ended(struct world *w)
{
    uint32_t who = w->ended;
    for (uint32_t k = w->ranks; k-- > 0;)
        if (w->links[k].fd < 0 && !w->links[k].left && waits_for(w, k)) who = k;
    snprintf(w->why, sizeof w->why, "rank %u has ended: its connection is closed", who);
}

static bool wrong_size(struct world *w, uint32_t peer, uint64_t sent, uint64_t asked)
{
    snprintf(w->why, sizeof w->why, "rank %u sends %llu bytes where %llu are expected", peer, (unsigned long long)sent,
             (unsigned long long)asked);
    w->fatal = true;
    return false;
}

static struct incoming *asked_for(struct world *w, uint32_t peer, uint32_t tag)
{
    for (struct incoming *in = w->asked; in < w->asked + w->asked_count; in++)
        if (!in->done && in->peer == peer && in->tag == tag) return in;
    return NULL;
}

/* Where what follows a frame goes. */
static bool place(struct world *w, uint32_t peer)
{
    struct link *l = &w->links[peer];
    l->of = NULL;
    if (l->frame.kind == NOTICE) {
        l->to = (char *)&l->notice;
        return l->frame.bytes == sizeof l->notice || wrong_size(w, peer, l->frame.bytes, sizeof l->notice);
    }
    l->of = asked_for(w, peer, l->frame.tag);
    if (l->of && l->of->bytes != l->frame.bytes) return wrong_size(w, peer, l->frame.bytes, l->of->bytes);
    if (l->of) l->to = l->of->data;
    else if (!(l->early = malloc(sizeof *l->early + l->frame.bytes)))
        return snprintf(w->why, sizeof w->why, "no memory for what rank %u sends", peer), !(w->fatal = true);
    else l->early->frame = l->frame, l->early->next = NULL, l->to = l->early->data;
    return true;
}

static bool deliver(struct world *w, uint32_t peer)
{
    struct link *l = &w->links[peer];
    struct incoming *in = l->early ? asked_for(w, peer, l->frame.tag) : NULL; /* since it began to arrive */
    l->got = 0;
    if (l->frame.kind == NOTICE) {
        l->left |= l->notice.state == STEPC_LEAVING;
        w->heard[w->heard_end++ % NOTICES] = l->notice;
    } else if (l->of) l->of->done = true;
    else if (in) {
        if (in->bytes != l->frame.bytes) return wrong_size(w, peer, l->frame.bytes, in->bytes);
        memcpy(in->data, l->early->data, in->bytes);
        in->done = true;
        free(l->early), l->early = NULL;
    } else {
        struct arrived **last = &l->arrived;
        while (*last) last = &(*last)->next;
        *last = l->early, l->early = NULL;
    }
    return true;
}

static bool receive(struct world *w, uint32_t peer)
{
    struct link *l = &w->links[peer];
    while (l->fd >= 0) {
        bool head = l->got < sizeof l->frame;
        uint64_t at = head ? l->got : l->got - sizeof l->frame, all = head ? sizeof l->frame : l->frame.bytes;
        if (at < all) {
            ssize_t n = recv(l->fd, (head ? (char *)&l->frame : l->to) + at, all - at, MSG_DONTWAIT);
            if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
            if (n <= 0) return gone(w, peer) || l->left;
            l->got += (uint64_t)n;
        }
        if (head && l->got == sizeof l->frame && !place(w, peer)) return false;
        if (l->got >= sizeof l->frame && l->got == sizeof l->frame + l->frame.bytes && !deliver(w, peer)) return false;
    }
    return true;
}

static bool transmit(struct world *w, uint32_t peer)
{
    struct link *l = &w->links[peer];
    while (l->out) {
        struct outgoing *o = l->out;
        bool head = o->sent < sizeof o->frame;
        uint64_t at = head ? o->sent : o->sent - sizeof o->frame, all = head ? sizeof o->frame : o->frame.bytes;
        ssize_t n = l->fd < 0
                        ? -1
                        : send(l->fd, (head ? (char *)&o->frame : o->data) + at, all - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (l->fd >= 0 && n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
        if (n < 0 && l->fd >= 0 && !gone(w, peer) && !l->left) return false;
        o->sent += n > 0 ? (uint64_t)n : 0;
        if (l->fd >= 0 && o->sent < sizeof o->frame + o->frame.bytes) continue;
        l->out = o->next; /* or nobody is there to hear it */
        free(o);
    }
    return true;
}

static void work(struct world *w)
{
    for (uint32_t k = 0; k < w->ranks; k++)
        if (k != w->rank && receive(w, k)) transmit(w, k);
}

static bool post(struct world *w, uint32_t peer, uint32_t kind, uint32_t tag, const void *data, uint64_t bytes)
{
    bool own = kind == NOTICE;
    struct outgoing *o = malloc(sizeof *o + (own ? bytes : 0)), **last = &w->links[peer].out;
    if (!o) return snprintf(w->why, sizeof w->why, "out of memory"), !(w->fatal = true);
    *o = (struct outgoing){.frame = {bytes, kind, tag}, .data = own ? o->own : data};
    if (own) memcpy(o->own, data, bytes);
    while (*last) last = &(*last)->next;
    *last = o;
    return true;
}

/* ---------------------------------------------------------------- the plug-in */

static bool ask(struct world *w, const struct stepc_message *m, uint32_t tag)
{
    if (w->asked_count == w->asked_room) {
        uint32_t room = w->asked_room ? 2 * w->asked_room : 16;
        struct incoming *more = realloc(w->asked, room * sizeof *more);
        if (!more) return snprintf(w->why, sizeof w->why, "out of memory"), !(w->fatal = true);
        for (uint32_t k = 0; k < w->ranks; k++)
            if (w->links[k].of) w->links[k].of = more + (w->links[k].of - w->asked);
        w->asked = more, w->asked_room = room;
    }
    struct incoming *in = &w->asked[w->asked_count++];
    *in = (struct incoming){m->data, m->bytes, m->peer, tag, false};
    for (struct arrived **a = &w->links[m->peer].arrived, *one; (one = *a); a = &one->next) {
        if (one->frame.tag != tag) continue;
        if (one->frame.bytes != m->bytes) return wrong_size(w, m->peer, one->frame.bytes, m->bytes);
        memcpy(m->data, one->data, m->bytes);
        in->done = true;
        *a = one->next;
        free(one);
        break;
    }
    return true;
}

static bool start(void *world, const struct stepc_message *messages, uint32_t count, uint32_t tag)
{
    struct world *w = world;
    bool ok = true;
    for (uint32_t i = 0; ok && i < count; i++) {
        const struct stepc_message *m = &messages[i];
        ok = m->receive ? ask(w, m, tag) : post(w, m->peer, MESSAGE, tag, m->data, m->bytes);
    }
    w->under_way = true;
    work(w);
    return ok;
}

static int poll_all(void *world)
{
    struct world *w = world;
    bool some = false, ended = w->under_way;
    work(w);
    for (uint32_t k = 0; k < w->ranks; k++) some |= k != w->rank && waits_for(w, k);
    if (w->fatal) return -1;
    if (w->some_ended && (some || !ended)) return name_who_ended(w), -1;
    if (some) return 0;
    w->asked_count = 0;
    w->under_way = false; /* who has sent all of it may have ended since */
    return 1;
}

static const char *why_of(void *world) { return ((struct world *)world)->why; }

static void tell(void *world, const struct stepc_notice *n)
{
    struct world *w = world;
    for (uint32_t k = 0; k < w->ranks; k++)
        if (k != w->rank) post(w, k, NOTICE, 0, n, sizeof *n);
    work(w);
}

static bool heard(void *world, struct stepc_notice *n)
{
    struct world *w = world;
    work(w);
    if (w->heard_first == w->heard_end) return false;
    if (w->heard_end - w->heard_first > NOTICES) w->heard_first = w->heard_end - NOTICES;
    *n = w->heard[w->heard_first++ % NOTICES];
    return true;
}

static void abort_all(void *world, int code)
{
    struct world *w = world;
    struct stepc_notice n = {.rank = w->rank, .state = STEPC_GONE, .text = "abort_peers, which its host called"};
    (void)code;
    tell(w, &n);
}

static void close_world(void *world, bool clean)
{
    struct world *w = world;
    uint64_t until = rt_now() + FLUSH_NS;
    bool some = true;
    (void)clean;
    while (some && rt_now() < until) {
        some = false;
        for (uint32_t k = 0; k < w->ranks; k++) some |= k != w->rank && transmit(w, k) && w->links[k].out;
    }
    for (uint32_t k = 0; k < w->ranks; k++) {
        struct link *l = &w->links[k];
        if (l->fd >= 0) close(l->fd);
        free(l->early);
        for (struct arrived *next; l->arrived; l->arrived = next) next = l->arrived->next, free(l->arrived);
        for (struct outgoing *next; l->out; l->out = next) next = l->out->next, free(l->out);
    }
    free(w->asked);
    free(w->links);
    free(w);
}

static const struct stepc_plugin plugin = {.version = STEPC_PLUGIN,
                                           .library = "sockets",
                                           .start = start,
                                           .poll = poll_all,
                                           .waits_for = waits_for,
                                           .why = why_of,
                                           .tell = tell,
                                           .heard = heard,
                                           .abort = abort_all,
                                           .close = close_world};

const struct stepc_plugin *rt_socket_open(const char *path, uint32_t rank, uint32_t ranks, int64_t timeout_ns,
                                          void **world, char *why, size_t size)
{
    struct world *w = calloc(1, sizeof *w);
    uint64_t until = timeout_ns > 0 ? rt_now() + (uint64_t)timeout_ns : 0;
    if (w) *w = (struct world){.rank = rank, .ranks = ranks, .links = calloc(ranks, sizeof *w->links)};
    if (!w || !w->links) {
        free(w);
        return snprintf(why, size, "out of memory"), NULL;
    }
    for (uint32_t k = 0; k < ranks; k++) w->links[k].fd = -1;
    if (ranks == 1 || link_all(w, path, until, why, size)) {
        *world = w;
        return &plugin;
    }
    close_world(w, false);
    return NULL;
}
