import CBenchmarks
import Glibc

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds.
func now() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

func sleep(until deadline: UInt64) {
  while case let present = now(), present < deadline {
    let left = deadline - present
    var time = timespec(tv_sec: Int(left / 1_000_000_000), tv_nsec: Int(left % 1_000_000_000))
    nanosleep(&time, nil)
  }
}

func readFile(_ path: String) -> String {
  guard let file = fopen(path, "r") else { fail("cannot read \(path)") }
  defer { fclose(file) }
  var buffer = [UInt8](repeating: 0, count: 8_192)
  let length = fread(&buffer, 1, buffer.count, file)
  return String(decoding: buffer[..<length], as: UTF8.self)
}

/// Returns the resident memory in bytes, without memory that the process has freed.
func residentBytes() -> Int {
  malloc_trim(0)
  let pages = readFile("/proc/self/statm").split(separator: " ")[1]
  return Int(pages)! * sysconf(CInt(_SC_PAGESIZE))
}

/// Returns the peak resident memory in KiB. `getrusage` would include the parent's peak.
func peakResidentKiB() -> Int {
  for line in readFile("/proc/self/status").split(separator: "\n")
  where line.hasPrefix("VmHWM:") {
    return Int(line.filter(\.isNumber))!
  }
  fail("no VmHWM in /proc/self/status")
}

func fail(_ message: String) -> Never {
  let line = "timer-bench: \(message)\n"
  _ = line.withCString { write(STDERR_FILENO, $0, strlen($0)) }
  exit(1)
}

/// Returns the number of steps in which virtual time passes: one per 100 operations, and at most
/// 1,000, so that small runs do not measure loop iterations instead of timers.
func steps(for operations: Int) -> Int { min(max(operations / 100, 1), 1_000) }

/// Prints one line per measured phase, in the format of all programs (see peers/README.md).
struct Report {
  let peer: String
  let workload: String
  let count: Int
  let checksum: UInt64
  var isQuiet = false

  func print(
    _ phase: String, _ nanoseconds: some BinaryInteger, operations: Int,
    bytesPerTimer: Double? = nil
  ) {
    if isQuiet { return }
    let perOperation = tenths(Double(nanoseconds) / Double(operations))
    let bytes = bytesPerTimer.map(tenths) ?? "-"
    Swift.print(
      peer, "-", workload, count, phase, perOperation, peakResidentKiB(), bytes,
      String(checksum, radix: 16), separator: "\t")
  }

  private func tenths(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }
}
