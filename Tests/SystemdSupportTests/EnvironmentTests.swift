import Glibc
import SystemdSupport
import Testing

/// What the variables of the environment say, each test in a process of its own.
@Suite struct EnvironmentTests {
  @Test func watchdogOfThisProcess() async {
    await #expect(processExitsWith: .success) {
      setenv("WATCHDOG_USEC", "10000000", 1)
      #expect(Watchdog.intervalMicroseconds() == 10_000_000)
      setenv("WATCHDOG_PID", "\(getpid())", 1)
      #expect(Watchdog.intervalMicroseconds() == 10_000_000)
    }
  }

  @Test func watchdogOfAnotherProcessOrOfNone() async {
    await #expect(processExitsWith: .success) {
      unsetenv("WATCHDOG_USEC")
      #expect(Watchdog.intervalMicroseconds() == nil)
      setenv("WATCHDOG_USEC", "10000000", 1)
      setenv("WATCHDOG_PID", "1", 1)
      #expect(Watchdog.intervalMicroseconds() == nil)
      unsetenv("WATCHDOG_PID")
      setenv("WATCHDOG_USEC", "ten", 1)
      #expect(Watchdog.intervalMicroseconds() == nil)
    }
  }

  @Test func theJournalIsKnownByDeviceAndInode() async {
    await #expect(processExitsWith: .success) {
      unsetenv("JOURNAL_STREAM")
      #expect(!Journal.isStandardError())
      var file = stat()
      precondition(fstat(STDERR_FILENO, &file) == 0)
      setenv("JOURNAL_STREAM", "\(file.st_dev):\(file.st_ino)", 1)
      #expect(Journal.isStandardError())
      setenv("JOURNAL_STREAM", "\(file.st_dev):\(file.st_ino + 1)", 1)
      #expect(!Journal.isStandardError())
      setenv("JOURNAL_STREAM", "journal", 1)
      #expect(!Journal.isStandardError())
    }
  }
}
