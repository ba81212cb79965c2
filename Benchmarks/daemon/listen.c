/* A cheap subscriber for the benchmarks: records which bytes arrive when, and leaves the parsing to
   its caller.

     listen SOCKET REQUEST

   Sends the request and prints "ready" once it is answered. When standard input ends, it writes to
   standard output: the number of pieces read; for each piece its time of arrival in microseconds
   since 1970 and the number of bytes received by then, all as 8 bytes; and the bytes. Exits with
   status 1 and a reason if it cannot reach the server or loses the connection. */

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Sizes of reserved address space. Memory is allocated on first access; `taken_before` bytes are
   accessed beforehand, so that reading does not wait for their allocation. */
static const size_t most_bytes = (size_t)4 << 30, most_pieces = 1 << 24, taken_before = 64 << 20;

struct piece { int64_t microsecond, end; };

static void fail(const char *what) {
  fprintf(stderr, "listen: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void *room(size_t bytes, size_t taken) {
  void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) fail("memory");
  memset(start, 1, taken);
  return start;
}

static void write_all(int file, const void *bytes, size_t count) {
  for (const char *at = bytes; count > 0;) {
    ssize_t written = write(file, at, count);
    if (written < 0) fail("writing");
    at += written;
    count -= written;
  }
}

int main(int argc, char **argv) {
  if (argc != 3 || strlen(argv[1]) >= sizeof((struct sockaddr_un *)0)->sun_path) {
    fprintf(stderr, "usage: listen SOCKET REQUEST\n");
    return 2;
  }
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, argv[1]);
  int server = socket(AF_UNIX, SOCK_STREAM, 0);
  if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof address) < 0) fail(argv[1]);
  write_all(server, argv[2], strlen(argv[2]));

  char *bytes = room(most_bytes, taken_before);
  struct piece *pieces = room(most_pieces * sizeof *pieces, 1 << 20);
  if (read(server, bytes, 4096) <= 0) fail("the answer to the request");
  write_all(STDOUT_FILENO, "ready\n", 6);

  size_t end = 0;
  int64_t count = 0;
  struct pollfd polled[] = {{.fd = server, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
  while (poll(polled, 2, -1) > 0 && !polled[1].revents) {
    ssize_t came = read(server, bytes + end, most_bytes - end);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (came <= 0) fail("the server's connection");
    if (count == (int64_t)most_pieces) fail("too many pieces");
    end += came;
    pieces[count++] = (struct piece){now.tv_sec * 1000000 + now.tv_nsec / 1000, end};
  }
  write_all(STDOUT_FILENO, &count, sizeof count);
  write_all(STDOUT_FILENO, pieces, count * sizeof *pieces);
  write_all(STDOUT_FILENO, bytes, end);
}
