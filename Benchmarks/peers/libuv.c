/* libuv: a binary heap of handles. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

static const char peer_name[] = "libuv";
static const unsigned handle_size = sizeof(uv_timer_t);
static const char *peer_version(void) { return uv_version_string(); }

static uv_loop_t loop;
static uv_timer_t *handles;
static uint32_t fired;

static void on_timer(uv_timer_t *handle) {
  (void)handle;
  fired++;
}

static void peer_begin(uint32_t count) {
  uv_loop_init(&loop);
  handles = malloc((size_t)count * sizeof *handles);
  memset(handles, 0, (size_t)count * sizeof *handles);
  for (uint32_t i = 0; i < count; i++) uv_timer_init(&loop, &handles[i]);
}

static void peer_end(void) {
  uv_walk(&loop, (uv_walk_cb)uv_close, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_loop_close(&loop);
  free(handles);
}

static void arm(uint32_t i, uint32_t ms) { uv_timer_start(&handles[i], on_timer, ms, 0); }
static void disarm(uint32_t i) { uv_timer_stop(&handles[i]); }
static void rearm_minute(uint32_t i) { uv_timer_start(&handles[i], on_timer, 60000, 0); }
static void turn(void) {
  uv_update_time(&loop);
  uv_run(&loop, UV_RUN_NOWAIT);
}
#define HAS_NEXT
static int64_t next_ms(void) { return uv_backend_timeout(&loop); }

#include "peer.h"
