import Glibc
import Testing

@testable import SystemdSupport

@Suite struct ActivatedSocketsTests {
  /// The whole way, as systemd does it: descriptor 3 and the variables of the environment.
  @Test func takesOverWhatSystemdPassed() async {
    await #expect(processExitsWith: .success) {
      passAsSystemdDoes(listeningSocket(), names: "countdownd")
      // Preconditions, because the channel on which an expectation reports is closed by now.
      precondition((try? ActivatedSockets.take(name: "countdownd")) == 3)
      precondition(fcntl(3, F_GETFD) & FD_CLOEXEC != 0, "close-on-exec is not set")
      precondition(getenv("LISTEN_FDS") == nil && getenv("LISTEN_FDNAMES") == nil)
      precondition((try? ActivatedSockets.take(name: "countdownd")) == .some(nil))
    }
  }

  @Test func nothingIsPassedToAnotherProcessOrWithoutSystemd() async {
    await #expect(processExitsWith: .success) {
      unsetenv("LISTEN_FDS")
      #expect((try? ActivatedSockets.take(name: "countdownd")) == .some(nil))
      setenv("LISTEN_FDS", "1", 1)
      setenv("LISTEN_PID", "1", 1)
      #expect((try? ActivatedSockets.take(name: "countdownd")) == .some(nil))
    }
  }

  @Test func aMalformedEnvironmentIsAnError() async {
    await #expect(processExitsWith: .success) {
      setenv("LISTEN_PID", "\(getpid())", 1)
      setenv("LISTEN_FDS", "many", 1)
      #expect(throws: ActivationError.unreadable(code: EINVAL)) {
        try ActivatedSockets.take(name: "countdownd")
      }
    }
  }

  @Test(arguments: ["countdownd", "countdownd.socket", "unknown"])
  func acceptsTheName(_ name: String) throws {
    let descriptor = listeningSocket()
    defer { close(descriptor) }
    let passed = ActivatedSockets.Passed(descriptor: descriptor, name: name)
    #expect(try ActivatedSockets.select(from: [passed], name: "countdownd") == descriptor)
  }

  @Test func refusesAnotherName() throws {
    let passed = ["countdownd", "metrics"].map {
      ActivatedSockets.Passed(descriptor: -1, name: $0)
    }
    let error = #expect(throws: ActivationError.self) {
      try ActivatedSockets.select(from: passed, name: "countdownd")
    }
    #expect(error == .wrongName(passed: ["countdownd", "metrics"], wanted: "countdownd"))
    #expect(
      error?.description == """
        systemd passed sockets named "countdownd", "metrics"; the socket unit needs \
        FileDescriptorName=countdownd, and nothing else may be passed
        """)
  }

  /// Clients of a socket that nobody accepts from would wait forever.
  @Test func refusesASecondSocket() throws {
    let descriptors = [listeningSocket(), listeningSocket()]
    defer { for descriptor in descriptors { close(descriptor) } }
    let passed = descriptors.map {
      ActivatedSockets.Passed(descriptor: $0, name: "countdownd")
    }
    let error = #expect(throws: ActivationError.self) {
      try ActivatedSockets.select(from: passed, name: "countdownd")
    }
    #expect(error == .tooMany(2))
    #expect(error?.description.contains("exactly one ListenStream=") == true)
  }

  @Test func refusesWhatIsNotAListeningUnixStreamSocket() throws {
    let stream = Int32(SOCK_STREAM.rawValue)
    let wrong = [
      socket(AF_UNIX, stream, 0), socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0),
      socket(AF_INET, stream, 0), socket(AF_NETLINK, Int32(SOCK_RAW.rawValue), 0),
      open("/dev/null", O_RDONLY),
    ]
    for descriptor in wrong {
      defer { close(descriptor) }
      let passed = ActivatedSockets.Passed(descriptor: descriptor, name: "countdownd")
      let error = #expect(throws: ActivationError.self) {
        try ActivatedSockets.select(from: [passed], name: "countdownd")
      }
      #expect(error == .wrongType(name: "countdownd", descriptor: descriptor))
      #expect(error?.description.contains("ListenStream=") == true)
    }
  }
}

private func listeningSocket() -> Int32 {
  let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
  let path = "/tmp/countdownd-activated-\(getpid())-\(descriptor).sock"
  unlink(path)
  precondition(bindUnix(descriptor, to: path) == 0 && listen(descriptor, 1) == 0)
  unlink(path)
  return descriptor
}

/// Puts `descriptor` where systemd puts the first one, whatever was there before.
private func passAsSystemdDoes(_ descriptor: Int32, names: String) {
  if descriptor != 3 {
    precondition(dup2(descriptor, 3) == 3)
    close(descriptor)
  }
  setenv("LISTEN_PID", "\(getpid())", 1)
  setenv("LISTEN_FDS", "1", 1)
  setenv("LISTEN_FDNAMES", names, 1)
}
