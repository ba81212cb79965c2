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
      notifier.ready(status: "3 countdowns")
      #expect(manager.receive() == "READY=1\nSTATUS=3 countdowns")
      notifier.ready()
      #expect(manager.receive() == "READY=1")
      notifier.status("4 countdowns")
      #expect(manager.receive() == "STATUS=4 countdowns")
      notifier.reloading()
      let reloading = manager.receive() ?? ""
      #expect(reloading.hasPrefix("RELOADING=1\nMONOTONIC_USEC="))
      var now = timespec()
      clock_gettime(CLOCK_MONOTONIC, &now)
      let said = Int(reloading.drop { $0 != "=" }.dropFirst().drop { $0 != "=" }.dropFirst())
      #expect((1...(now.tv_sec + 1) * 1_000_000).contains(said ?? 0))
      notifier.watchdog()
      #expect(manager.receive() == "WATCHDOG=1")
      notifier.stopping(status: "saving")
      #expect(manager.receive() == "STOPPING=1\nSTATUS=saving")
      notifier.drain(atMost: .seconds(60))
      #expect(!manager.hasMessage)
    }
  }

  @Test(.timeLimit(.minutes(5))) func aManagerThatDoesNotReadHoldsNobodyUp() async {
    await #expect(processExitsWith: .success) {
      let manager = NotifySocket()
      defer { manager.close() }
      let notifier = ServiceNotifier()
      notifier.ready()
      for number in 1...100 {
        notifier.reloading()
        notifier.ready(status: "reload \(number)")
        notifier.watchdog()
        notifier.status("heartbeat \(number)")
      }
      notifier.drain(atMost: .milliseconds(10))
      notifier.stopping()

      var messages: [String] = []
      while messages.last != "STOPPING=1" { messages.append(manager.receive() ?? "STOPPING=1") }
      #expect(messages.count < 30)
      #expect(
        messages.suffix(5).map { $0.prefix { $0 != "\n" } } == [
          "RELOADING=1", "READY=1", "WATCHDOG=1", "STATUS=heartbeat 100", "STOPPING=1",
        ])
      notifier.drain(atMost: .seconds(60))
      #expect(!manager.hasMessage)
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
      notifier.ready()
      notifier.watchdog()
      notifier.stopping()
    }
  }

  @Test func isHarmlessWhenNobodyListens() async {
    await #expect(processExitsWith: .success) {
      setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1)
      let notifier = ServiceNotifier()
      notifier.ready()
      notifier.drain(atMost: .seconds(60))
    }
  }
}
