/* libev: a 4-ary heap with the deadlines in the nodes. */
#include <ev.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const char peer_name[] = "libev";
static const unsigned handle_size = sizeof(ev_timer);
static const char *peer_version(void) {
  static char text[16];
  snprintf(text, sizeof text, "%d.%d", ev_version_major(), ev_version_minor());
  return text;
}

static struct ev_loop *loop;
static ev_timer *handles;
static uint32_t fired;

static void on_timer(struct ev_loop *its_loop, ev_timer *handle, int events) {
  (void)its_loop, (void)handle, (void)events;
  fired++;
}

static void peer_begin(uint32_t count) {
  loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOTIMERFD);
  handles = calloc(count, sizeof *handles);
  for (uint32_t i = 0; i < count; i++) ev_timer_init(&handles[i], on_timer, 0., 0.);
}

static void peer_end(void) {
  ev_loop_destroy(loop);
  free(handles);
}

static void arm(uint32_t i, uint32_t ms) {
  ev_timer_set(&handles[i], ms * 1e-3, 0.);
  ev_timer_start(loop, &handles[i]);
}
static void disarm(uint32_t i) { ev_timer_stop(loop, &handles[i]); }
/* libev's manual recommends this for connection timeouts. */
static void rearm_minute(uint32_t i) {
  handles[i].repeat = 60.;
  ev_timer_again(loop, &handles[i]);
}
static void turn(void) { ev_run(loop, EVRUN_NOWAIT); }

#include "peer.h"
