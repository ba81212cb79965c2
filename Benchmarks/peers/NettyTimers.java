import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Netty's HashedWheelTimer, with ticks of 1 ms, as fine as the others, and 65,536 slots, so that
 * walking past timers of later rounds costs little.
 *
 * <p>The caller only puts timeouts and cancellations into queues; a worker thread does the rest at
 * its next tick. The measurement counts the CPU time of both threads, but not that of the compiler
 * and the garbage collector.
 */
public final class NettyTimers {
  static final long HOUR = 3_600_000;

  static long state;
  static long checksum;

  static long splitMix64() {
    state += 0x9e3779b97f4a7c15L;
    long z = state;
    z = (z ^ z >>> 30) * 0xbf58476d1ce4e5b9L;
    z = (z ^ z >>> 27) * 0x94d049bb133111ebL;
    return z ^ z >>> 31;
  }

  static int randomBelow(long bound) {
    return (int) ((splitMix64() >>> 32) * bound >>> 32);
  }

  static int note(int value) {
    checksum = (checksum ^ value) * 0x100000001b3L;
    return value;
  }

  static int[] delays;
  static int[] order;
  static int[] picks;

  /** Generates the random input of the workloads: see Mix.swift. */
  static void makeMix(int n, long seed) {
    state = seed;
    checksum = 0xcbf29ce484222325L;
    delays = new int[n];
    order = new int[n];
    picks = new int[2 * n];
    for (int i = 0; i < n; i++) delays[i] = note(1 + randomBelow(HOUR));
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
      int j = note(randomBelow(i + 1L));
      int swapped = order[i];
      order[i] = order[j];
      order[j] = swapped;
    }
    for (int i = 0; i < 2 * n; i++) picks[i] = note(randomBelow(n));
  }

  static final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
  static String workload;
  static boolean quiet;
  static HashedWheelTimer timer;
  static long worker;
  static final AtomicInteger fired = new AtomicInteger();
  static final TimerTask task = timeout -> fired.incrementAndGet();

  /** Returns the CPU time that caller and worker have used, in nanoseconds. */
  static long used() {
    return threads.getCurrentThreadCpuTime() + threads.getThreadCpuTime(worker);
  }

  static long heap() {
    System.gc();
    return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
  }

  static void begin(int slots) throws Exception {
    CountDownLatch known = new CountDownLatch(1);
    timer = new HashedWheelTimer(1, TimeUnit.MILLISECONDS, slots);
    timer.newTimeout(
        timeout -> {
          worker = Thread.currentThread().getId();
          known.countDown();
        },
        1,
        TimeUnit.MILLISECONDS);
    known.await();
    fired.set(0);
  }

  static void end() {
    timer.stop();
  }

  /** Waits until the worker has taken everything from the queues: 100,000 timeouts per tick. */
  static void settle(int count) throws Exception {
    Thread.sleep(20 + count / 25_000);
  }

  static void report(int n, String phase, long ns, long operations, double bytes)
      throws Exception {
    if (quiet) return;
    String peak =
        Files.readAllLines(Path.of("/proc/self/status")).stream()
            .filter(line -> line.startsWith("VmHWM"))
            .findFirst()
            .get()
            .replaceAll("[^0-9]", "");
    String version =
        io.netty.util.Version.identify().containsKey("netty-common")
            ? io.netty.util.Version.identify().get("netty-common").artifactVersion()
            : "-";
    System.out.printf(
        "netty\t%s\t%s\t%d\t%s\t%.1f\t%s\t%s\t%x%n",
        version,
        workload,
        n,
        phase,
        (double) ns / operations,
        peak,
        bytes > 0 ? String.format("%.1f", bytes) : "-",
        checksum);
  }

  static void fail(String what) {
    System.err.println("netty: " + what);
    System.exit(1);
  }

  static void runCancel(int n) throws Exception {
    Timeout[] timeouts = new Timeout[n];
    long before = heap();
    long start = used();
    for (int i = 0; i < n; i++) {
      timeouts[i] = timer.newTimeout(task, HOUR + delays[i], TimeUnit.MILLISECONDS);
    }
    settle(n);
    long armed = used();
    double bytes = (double) (heap() - before) / n;
    long middle = used();
    for (int i : order) timeouts[i].cancel();
    while (timer.pendingTimeouts() > 0) Thread.sleep(1);
    long end = used();
    report(n, "schedule", armed - start, n, bytes);
    report(n, "cancel", end - middle, n, 0);
  }

  /** Keeps the worker busy until all timers are due; it then processes the ticks it has missed. */
  static void runExpire(int n) throws Exception {
    // Time for arming, for the worker to empty the queues, and a reserve.
    long margin = 500_000 + n * 3L;
    CountDownLatch due = new CountDownLatch(1);
    Timeout[] timeouts = new Timeout[n];
    long began = System.nanoTime();
    long start = used();
    for (int i = 0; i < n; i++) {
      timeouts[i] = timer.newTimeout(task, margin + delays[i], TimeUnit.MICROSECONDS);
    }
    settle(n);
    long armed = used();
    long left = margin / 1000 - (System.nanoTime() - began) / 1_000_000 - 60;
    if (left < 0) fail("arming took longer than the time set aside for it");
    Thread.sleep(left);
    timer.newTimeout(timeout -> due.await(), 0, TimeUnit.MILLISECONDS);
    Thread.sleep(30);
    if (fired.get() > 0) fail("timers fired too early");
    Thread.sleep(HOUR / 1000 + margin / 1000 + 60);
    long middle = used();
    due.countDown();
    while (fired.get() < n) Thread.sleep(1);
    long end = used();
    report(n, "schedule", armed - start, n, 0);
    report(n, "expire", end - middle, n, 0);
  }

  /** Cancels each timeout and creates another, because a timeout cannot be moved. */
  static void runReschedule(int n) throws Exception {
    Timeout[] timeouts = new Timeout[n];
    for (int i = 0; i < n; i++) timeouts[i] = timer.newTimeout(task, 60, TimeUnit.SECONDS);
    settle(n);
    long start = used();
    for (int i : picks) {
      timeouts[i].cancel();
      timeouts[i] = timer.newTimeout(task, 60, TimeUnit.SECONDS);
    }
    settle(2 * n);
    while (timer.pendingTimeouts() > n) Thread.sleep(1);
    long end = used();
    if (fired.get() > 0) fail("connections timed out");
    report(n, "reschedule", end - start, 2L * n, 0);
  }

  static void run(int n, long seed, String workload) throws Exception {
    makeMix(n, seed);
    // In `expire` the hour is a thousand times shorter, and so is the wheel's round: it passes a
    // timer before its deadline as often as in a real hour.
    begin(workload.equals("expire") ? 64 : 65_536);
    switch (workload) {
      case "cancel":
        runCancel(n);
        break;
      case "same":
        java.util.Arrays.fill(delays, 1);
        runExpire(n);
        break;
      case "expire":
        runExpire(n);
        break;
      case "reschedule":
        runReschedule(n);
        break;
      case "hour":
      case "next":
        // Netty has no virtual time and no public call for the next deadline.
        break;
      default:
        fail("no such workload");
    }
    end();
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 4) {
      System.err.println("usage: NettyTimers WORKLOAD N SEED ROUND");
      System.exit(2);
    }
    workload = arguments[0];
    int n = Integer.parseInt(arguments[1]);
    long seed = Long.parseLong(arguments[2]) + Long.parseLong(arguments[3]);
    // A longer warm-up than for the others: the JIT compiler needs many runs.
    quiet = true;
    for (int i = 0; i < 5; i++) run(100_000, seed, workload.equals("reschedule") ? workload : "cancel");
    quiet = false;
    run(n, seed, workload);
    System.exit(0);
  }
}
