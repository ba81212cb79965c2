import Glibc
import Testing

@testable import SystemdSupport

/// Against a real datagram socket, each test in a process of its own.
@Suite struct ServiceNotifierTests {
  @Test func saysWhatSystemdWaitsFor() async {
    await #expect(processExitsWith: .success) {
      let manager = NotifySocket()
      defer { manager.close() }
      let notifier = ServiceNotifier()
      #expect(notifier.isUnderSystemd)
      #expect(notifier.ready(status: "3 countdowns") == .sent)
      #expect(manager.receive() == "READY=1\nSTATUS=3 countdowns")
      #expect(notifier.ready() == .sent)
      #expect(manager.receive() == "READY=1")
      #expect(notifier.status("4 countdowns") == .sent)
      #expect(manager.receive() == "STATUS=4 countdowns")
      #expect(notifier.reloading() == .sent)
      let reloading = manager.receive() ?? ""
      #expect(reloading.hasPrefix("RELOADING=1\nMONOTONIC_USEC="))
      var now = timespec()
      clock_gettime(CLOCK_MONOTONIC, &now)
      let said = Int(reloading.drop { $0 != "=" }.dropFirst().drop { $0 != "=" }.dropFirst())
      #expect((1...(now.tv_sec + 1) * 1_000_000).contains(said ?? 0))
      #expect(notifier.watchdog() == .sent)
      #expect(manager.receive() == "WATCHDOG=1")
      #expect(notifier.stopping(status: "saving") == .sent)
      #expect(manager.receive() == "STOPPING=1\nSTATUS=saving")
      #expect(manager.receive() == nil)
    }
  }

  @Test func aStatusCannotSmuggleInAnotherAssignment() async {
    await #expect(processExitsWith: .success) {
      let manager = NotifySocket()
      defer { manager.close() }
      ServiceNotifier().status("a\nMAINPID=1\r\nb\0c")
      #expect(manager.receive() == #"STATUS=a\u{a}MAINPID=1\u{d}\u{a}b\u{0}c"#)
    }
  }

  @Test func aLongStatusDoesNotCostTheReadyItCameWith() async {
    await #expect(processExitsWith: .success) {
      let manager = NotifySocket()
      defer { manager.close() }
      ServiceNotifier().ready(status: String(repeating: "é", count: 5000))
      #expect(manager.receive() == "READY=1\nSTATUS=" + String(repeating: "é", count: 512))
    }
  }

  @Test func isHarmlessWithoutSystemd() async {
    await #expect(processExitsWith: .success) {
      unsetenv("NOTIFY_SOCKET")
      let notifier = ServiceNotifier()
      #expect(!notifier.isUnderSystemd)
      #expect(notifier.ready() == .notUnderSystemd)
      #expect(notifier.watchdog() == .notUnderSystemd)
      #expect(notifier.stopping() == .notUnderSystemd)
    }
  }

  @Test func saysSoWhenNobodyListens() async {
    await #expect(processExitsWith: .success) {
      setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1)
      #expect(ServiceNotifier().ready() == .failed(code: ENOENT))
    }
  }
}
