/* libevent: a binary heap of events; compiled with -DCOMMON, its queue for events that all have the
 * same timeout (event_base_init_common_timeout). */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const unsigned handle_size = sizeof(struct event);
static const char *peer_version(void) { return event_get_version(); }

static struct event_base *base;
static struct event *handles;
static struct timeval minute = {60, 0};
static uint32_t fired;

static void on_timer(evutil_socket_t fd, short events, void *argument) {
  (void)fd, (void)events, (void)argument;
  fired++;
}

static void peer_begin(uint32_t count) {
  base = event_base_new();
  handles = malloc(count * sizeof *handles);
  memset(handles, 0, count * sizeof *handles);
  for (uint32_t i = 0; i < count; i++) event_assign(&handles[i], base, -1, 0, on_timer, NULL);
#ifdef COMMON
  memcpy(&minute, event_base_init_common_timeout(base, &(struct timeval){60, 0}), sizeof minute);
#endif
}

static void peer_end(void) {
  event_base_free(base);
  free(handles);
}

static void disarm(uint32_t i) { event_del(&handles[i]); }
static void rearm_minute(uint32_t i) { event_add(&handles[i], &minute); }
static void turn(void) { event_base_loop(base, EVLOOP_NONBLOCK); }

#ifdef COMMON
static const char peer_name[] = "libevent-common";
#define ONLY_ONE_DURATION 1
static void arm(uint32_t i, uint32_t ms) {
  (void)ms;
  event_add(&handles[i], &minute);
}
#else
static const char peer_name[] = "libevent";
#define ONLY_ONE_DURATION 0
static void arm(uint32_t i, uint32_t ms) {
  struct timeval delay = {ms / 1000, ms % 1000 * 1000};
  event_add(&handles[i], &delay);
}
#endif
#include "peer.h"
