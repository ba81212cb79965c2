// Opens many streams of server-sent events and tells when all of them have received a text: many.py
// starts it, and has the numbers of its commands.
//
//   pages PORT FILE      FILE has the requests, each with its empty line, and a NUL after each
//
// Commands, a line each; each is answered by the number of pages that do not have what they wait for
// after 20 s without news.
//
//   open TEXT            connects all pages, 200 at a time, and waits until each has received TEXT
//   again TEXT           closes them, and connects all at once, each with the last id that it has seen
//   wait TEXT            waits until each has received TEXT after the last command
//   stay SECONDS         reads for that long; answers how many streams have ended

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { AT_A_TIME = 200, PATIENCE_MS = 20000, ID = 128, TAIL = 64, CHUNK = 1 << 16 };

struct page {
  const char *request;
  int socket;
  bool sent, has, ended;
  char id[ID];      // the last one
  char tail[TAIL];  // the end of what was received, in which a text may begin
  size_t tail_length;
};

static struct page *pages;
static size_t count, connected, missing, ended;
static int port, poll;
static const char *wanted = "";

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void connect_page(struct page *page) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  page->socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (page->socket < 0) fail("socket");
  if (connect(page->socket, (void *)&address, sizeof address) && errno != EINPROGRESS) fail("connect");
  page->sent = page->ended = false;
  page->tail_length = 0;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = page};
  if (epoll_ctl(poll, EPOLL_CTL_ADD, page->socket, &event)) fail("epoll_ctl");
}

static void end_page(struct page *page) {
  if (page->ended) return;
  page->ended = true;
  ended++;
  close(page->socket);
}

static void send_request(struct page *page) {
  char text[8192];
  size_t length = strlen(page->request) - 2;
  if (length + ID + 32 > sizeof text) fail("a request is too long");
  memcpy(text, page->request, length);
  if (page->id[0]) length += sprintf(text + length, "Last-Event-ID: %s\r\n", page->id);
  memcpy(text + length, "\r\n", 2);
  length += 2;
  if (send(page->socket, text, length, MSG_NOSIGNAL) == (ssize_t)length) page->sent = true;
  else if (errno != EAGAIN && errno != ENOTCONN) end_page(page);
}

// Looks for the text and the last id in what was received.
static void look(struct page *page, char *text, size_t length) {
  text[length] = 0;
  for (char *at = text; (at = strstr(at, "id: ")); at += 4) {
    char *end = strchr(at, '\n');
    if (at != text && at[-1] != '\n') continue;
    if (!end || end - at - 4 >= ID) break;
    size_t size = end - at - 4;
    if (size && end[-1] == '\r') size--;
    memcpy(page->id, at + 4, size);
    page->id[size] = 0;
  }
  if (!page->has && strstr(text, wanted)) {
    page->has = true;
    missing--;
  }
  page->tail_length = length < TAIL ? length : TAIL;
  memcpy(page->tail, text + length - page->tail_length, page->tail_length);
}

// Returns whether something came.
static bool read_page(struct page *page) {
  static char text[TAIL + CHUNK + 1];
  bool came = false;
  while (!page->ended) {
    memcpy(text, page->tail, page->tail_length);
    ssize_t got = recv(page->socket, text + page->tail_length, CHUNK, 0);
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) end_page(page);
    else look(page, text, page->tail_length + got);
    came = true;
  }
  return came;
}

// Reads until no page waits, or nothing came for as long as `patience`.
static void read_all(double patience, bool stays) {
  struct epoll_event events[1024];
  double last = now_ms();
  while ((missing || stays) && now_ms() - last < patience) {
    while (connected < count && connected - (count - missing) < AT_A_TIME) connect_page(&pages[connected++]);
    int got = epoll_wait(poll, events, 1024, 100);
    for (int i = 0; i < got; i++) {
      struct page *page = events[i].data.ptr;
      if (page->ended) continue;
      if (!page->sent && events[i].events & EPOLLOUT) send_request(page);
      if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && read_page(page) && !stays) last = now_ms();
    }
  }
}

static void expect(const char *text) {
  wanted = text;
  missing = count;
  for (size_t i = 0; i < count; i++) {
    pages[i].has = false;
    pages[i].tail_length = 0;
  }
}

static void read_requests(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) fail(path);
  size_t room = 0;
  char *request = NULL;
  size_t size = 0;
  while (getdelim(&request, &size, 0, file) > 0) {
    if (count == room) pages = realloc(pages, (room = 2 * room + 1024) * sizeof *pages);
    pages[count++] = (struct page){.request = strdup(request)};
  }
  fclose(file);
}

int main(int arguments, char **words) {
  if (arguments != 3) return fprintf(stderr, "usage: pages PORT FILE\n"), 2;
  port = atoi(words[1]);
  poll = epoll_create1(0);
  read_requests(words[2]);
  char line[1024], word[16], text[1000];
  while (fgets(line, sizeof line, stdin) && sscanf(line, "%15s %999[^\n]", word, text) == 2) {
    if (!strcmp(word, "stay")) {
      ended = 0;
      read_all(atof(text) * 1e3, true);
      printf("%zu\n", ended);
    } else {
      expect(strdup(text));
      if (!strcmp(word, "open")) connected = 0;
      if (!strcmp(word, "again")) {
        for (size_t i = 0; i < count; i++) {
          end_page(&pages[i]);
          connect_page(&pages[i]);
        }
      }
      read_all(PATIENCE_MS, false);
      printf("%zu\n", missing);
    }
    fflush(stdout);
  }
}
